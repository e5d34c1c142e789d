"""A comparison with eager mode over the protocol: from the command to lens, squiggle, hover and report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.server.conftest import settings
from tests.server.programs import WAITING, let_go, write
from tests.server.test_kernels import by_line, hover

if TYPE_CHECKING:
    from pathlib import Path

    from tests.server.conftest import Start
    from tests.support.lsp_client import Client, Json

pytestmark = pytest.mark.torch

SOURCE = """\
import torch


# fuselight: share(f32[34, 4])
# fuselight: share(f32[37, 4])
@torch.compile(backend="eager")
def share(x):
    rows = round(x.shape[0], -1)
    total = x.relu().sum()
    return total / rows
"""
"""A size that is rounded is traced as the size itself once it is dynamic: in the second call."""
TARGET, WRONG = 6, 7
"""0-based lines."""
TEXT = "results differ from eager: line 8"


def accuracy_node(client: Client, uri: str) -> Json:
    (target,) = client.request("fuselight/reportTree", {"uri": uri})["nodes"]
    (node,) = [child for child in target["children"] if child["contextValue"] == "accuracy"]
    shown: Json = node
    return shown


def wrong_results(client: Client, uri: str) -> list[tuple[int, str]]:
    diagnostics: list[dict[str, Any]] = client.diagnostics(uri)
    return [
        (item["range"]["start"]["line"], item["message"]) for item in diagnostics if item["code"] == "FL801"
    ]


def test_a_wrong_line_is_shown_until_it_is_edited_and_by_the_next_server(
    connect: Start, tmp_path: Path
) -> None:
    (tmp_path / "pyproject.toml").touch()
    client = connect(settings=settings(run="manual"))
    client.start(tmp_path)
    uri = client.open(write(tmp_path, SOURCE))
    client.until(lambda: "Accuracy" in by_line(client, uri).get(TARGET, []), "the lens")
    since = client.mark()
    client.command("fuselight.server.accuracy", {"uri": uri, "target": "share"})
    client.notified("fuselight/status", lambda status: status["running"] == ["share (accuracy)"], since=since)
    client.idle(1)
    assert by_line(client, uri)[TARGET][0] == TEXT
    ((line, message),) = wrong_results(client, uri)
    assert line == WRONG
    assert message.startswith("results of `share` differ from eager mode: output is off by up to ")
    text = hover(client, uri, WRONG)
    assert "begin to differ in TorchDynamo" in text
    assert (
        "With `torch._dynamo.config.automatic_dynamic_shapes = False` the results are as in eager mode."
        in text
    )
    assert "They still differ with `torch._dynamo.config.skip_nnmodule_hook_guards = False`" in text
    call, right = accuracy_node(client, uri)["children"]
    assert right["description"] == "as eager, 1 value"
    assert call["children"][0]["label"] == "First difference on line 8"

    later = connect(settings=settings(run="manual"))
    later.start(tmp_path)
    assert later.open(tmp_path / "model.py") == uri
    later.until(lambda: [line for line, _ in wrong_results(later, uri)] == [WRONG], "the kept finding")
    assert by_line(later, uri)[TARGET][0].startswith(f"{TEXT} (from 20")
    later.edit(uri, (WRONG, 0), (WRONG, 0), "    y = x * 1\n")
    later.until(
        lambda: by_line(later, uri)[TARGET][0] == "results differ from eager: line 9 (before your edit)",
        "the stale lens",
    )
    later.command("fuselight.server.clearCaches")
    assert wrong_results(later, uri) == []


def test_a_canceled_comparison_ends_and_bad_requests_are_answered(connect: Start, tmp_path: Path) -> None:
    client = connect(settings=settings(run="manual"))
    client.start(tmp_path)
    path = write(tmp_path, WAITING)
    uri = client.open(path)
    client.command("fuselight.server.accuracy", {"uri": uri, "target": "f"})
    client.notified("fuselight/status", lambda status: status["running"] == ["f (accuracy)"])
    client.command("fuselight.server.cancelAccuracy", {"uri": uri, "target": 7})
    client.command("fuselight.server.cancelAccuracy", {"uri": uri, "target": "f"})
    client.idle(1)
    let_go(path)
    assert "comparison canceled" in by_line(client, uri)[next(iter(by_line(client, uri)))]
    assert client.command("fuselight.server.accuracy") is None
    assert client.command("fuselight.server.cancelAccuracy") is None
