"""Failed compile tests on the lines that caused them, until a test passes or the text changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight.shared.report import Tier
from fuselight_server.base.finding import Finding, Severity, Span
from fuselight_server.base.store import Store
from fuselight_server.commands.compile_tests import failed_test, keep_failed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.lsp_client import Client, Json

MODEL = "def step(x):\n    é = x + 1; print(é)\n    return x\n"
TEST = "test_model.py::test_one_graph[4]"


def keep(client: Client, folder: Path, *findings: Finding) -> None:
    """As a session of pytest does that has run the test."""
    keep_failed(Store.at(folder), {TEST}, [failed_test(TEST, findings)] if findings else [])
    changed = {"uri": (folder / ".fuselight" / "tests.json").as_uri(), "type": 2}
    client.notify("workspace/didChangeWatchedFiles", {"changes": [changed]})


def of_tests(client: Client, uri: str) -> list[Json]:
    return [item for item in client.diagnostics(uri) if item["source"] == "fuselight pytest"]


def until_shown(client: Client, uri: str, number: int) -> None:
    def happened() -> bool:
        client.request("fuselight/reportTree", {"uri": uri})  # a round trip
        return len(of_tests(client, uri)) == number

    client.until(happened, f"{number} findings of tests")


def broken(path: Path) -> Finding:
    span = Span(str(path), 2, 16, 2, 25)
    return Finding(
        "GB0059", Severity.WARNING, "graph break: `print`", "Why.", span, Tier.CAPTURE, "step", "", ""
    )


def test_a_failed_test_is_shown_at_its_cause_until_the_text_changes_or_it_passes(
    client: Client, folder: Path
) -> None:
    model = folder / "model.py"
    model.write_text(MODEL, encoding="utf-8")
    uri = client.open(model)
    keep(client, folder, broken(model))
    until_shown(client, uri, 1)
    (item,) = of_tests(client, uri)
    assert item["message"].startswith(f"{TEST} fails: graph break: `print`")
    assert item["code"] == "GB0059"
    assert item["range"] == {"start": {"line": 1, "character": 15}, "end": {"line": 1, "character": 23}}

    client.edit(uri, (2, 0), (2, 0), "    x = x * 2\n")
    until_shown(client, uri, 0)
    client.edit(uri, (2, 0), (3, 0), "", 3)
    until_shown(client, uri, 1)  # the text that ran

    keep(client, folder)
    until_shown(client, uri, 0)


def test_a_file_that_is_not_open_and_a_store_that_is_cleared(client: Client, folder: Path) -> None:
    model = folder / "model.py"
    model.write_text(MODEL, encoding="utf-8")
    keep(client, folder, broken(model))
    until_shown(client, model.as_uri(), 1)
    model.write_text(f"\n{MODEL}", encoding="utf-8")
    client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": model.as_uri(), "type": 2}]})
    until_shown(client, model.as_uri(), 0)
    keep(client, folder, broken(model))
    until_shown(client, model.as_uri(), 1)
    client.command("fuselight.server.clearCaches")
    until_shown(client, model.as_uri(), 0)
    assert not (folder / ".fuselight" / "tests.json").exists()
