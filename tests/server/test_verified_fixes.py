"""Verified fixes in a real server with a real worker: offered, resolved, applied, undone, refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.server.programs import breaks, run_in, write
from tests.support.trace_logs import compiled

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.lsp_client import Client, Json

pytestmark = pytest.mark.torch

BRANCH = """\
import torch


# fuselight: f(f32[4, 8])
@torch.compile
def f(x):
    if x.mean() > 0:
        y = x * 2
    else:
        y = x - 1
    return y
"""
"""No integer and no bool has a mean: else the title would except bools, once there was time to try them."""
IF = 6
"""0-based line of the branch."""
FIXED = BRANCH[: BRANCH.index("    if")] + "    y = torch.where(x.mean() > 0, x * 2, x - 1)\n    return y\n"

AUTOMATIC = 2
"""`CodeActionTriggerKind` of a light bulb."""


def fixes(client: Client, uri: str, line: int = IF, **context: object) -> list[Json]:
    return [action for action in client.actions(uri, line, **context) if "torch." in action["title"]]


def verified(client: Client, uri: str, line: int = IF) -> list[Json]:
    """The fixes of a line when the best one was verified."""
    verified: list[Json] = []

    def has_ended() -> bool:
        verified[:] = fixes(client, uri, line)
        title = verified[0]["title"]
        return not title.startswith("Verify and apply") and not title.endswith("still comparing")

    client.until(has_ended, "the verification of a fix")
    return verified


def text_of(text: str, edit: Json) -> str:
    """`text` after the only document's edits."""
    (document,) = edit["documentChanges"]
    lines = text.splitlines(keepends=True)
    for value in reversed(document["edits"]):
        start, end = value["range"]["start"], value["range"]["end"]
        assert (start["character"], end["character"]) == (0, 0)
        lines[start["line"] : end["line"]] = [value["newText"]]
    return "".join(lines)


def test_a_fix_is_verified_for_the_light_bulb_and_its_lens_follows_apply_and_undo(
    client: Client, folder: Path
) -> None:
    uri = run_in(client, folder, BRANCH)
    client.idle(1)
    before = client.lenses(uri)
    assert any(title.startswith("2 graphs, 1 break") for title in before), before

    offered = fixes(client, uri, triggerKind=AUTOMATIC)
    assert offered[0]["title"] == "Verify and apply: Use torch.where", "nothing is claimed yet"
    first = verified(client, uri)[0]
    assert first["title"] == "Use torch.where: 2 → 1 graphs, same results"
    assert first["isPreferred"]
    assert "edit" not in first
    assert first["diagnostics"][0]["code"] == breaks(client, uri)[0]["code"]

    edit = client.request("codeAction/resolve", first)["edit"]
    assert text_of(BRANCH, edit) == FIXED
    assert edit["documentChanges"][0]["textDocument"]["version"] == 1
    client.apply(edit)
    lenses = client.lenses(uri)
    assert "1 graph, no breaks (verified)" in lenses, lenses
    assert "line 7: break gone" in lenses, lenses
    assert breaks(client, uri) == []
    assert fixes(client, uri) == []

    undo = BRANCH[BRANCH.index("    if") : BRANCH.index("    return")]
    client.edit(uri, (IF, 0), (IF + 1, 0), undo)
    assert client.lenses(uri) == before
    assert len(breaks(client, uri)) == 1
    assert fixes(client, uri)[0]["title"] == first["title"], "known by content"


def test_an_edited_file_gets_fixes_by_a_run_of_its_unsaved_text(client: Client, folder: Path) -> None:
    uri = run_in(client, folder, BRANCH)
    client.idle(1)
    client.edit(uri, (IF + 1, 16), (IF + 1, 17), "3")
    (run, *others) = client.actions(uri, IF)
    assert run["title"] == "Run f to look for fixes: its code has changed since the last run"
    assert run["diagnostics"][0]["code"] == "GB0170"
    assert not any("torch." in entry["title"] for entry in others)
    client.request("workspace/executeCommand", run["command"])
    client.idle(2)
    assert verified(client, uri)[0]["title"] == "Use torch.where: 2 → 1 graphs, same results"
    assert not any(action["title"].startswith("Run ") for action in client.actions(uri, IF))
    assert (folder / "model.py").read_text() == BRANCH, "nothing was saved"


LAYERS = """\
import torch


class Gate(torch.nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale

    def forward(self, x):
        if x.mean() > 0:
            y = x * self.scale
        else:
            y = x - self.scale
        return y


def compiled(scales):
    gates = [Gate(scale) for scale in scales]
    for gate in gates:
        gate.compile()
    return gates
"""
GATE = 9
"""0-based line of its branch."""
TRAIN = """\
import threading

import torch
from layers import compiled


def work(gates, x):
    for gate in gates:
        x = gate(x)


if __name__ == "__main__":
    for rows in (2, 3):
        thread = threading.Thread(target=work, args=(compiled([2.0]), torch.ones(rows, 4)))
        thread.start()
        thread.join()
"""
LOOP = """\
import torch
from layers import Gate

for rows in (2, 3):
    gate = Gate(3.0)
    gate.compile()
    gate(torch.ones(rows, 4))
"""
NAMED = """\
import torch
from layers import Gate

gate = torch.compile(Gate(3.0))
total = sum(gate(torch.ones(rows, 4)).sum() for rows in (2, 2))
"""


RECOMPILED = ["Fix layers.py:10 first", "1 graph, 1 recompilation"]
"""By the sizes of the two calls."""


@pytest.mark.parametrize(
    ("program", "result"),
    [
        (TRAIN, RECOMPILED),
        pytest.param(LOOP, RECOMPILED, marks=pytest.mark.corpora),
        (NAMED, ["1 graph, no breaks", "layers.py:10: break gone"]),
    ],
)
def test_a_program_s_run_gives_the_files_that_it_imports_findings_and_verified_fixes(
    client: Client, folder: Path, program: str, result: list[str]
) -> None:
    uri = client.open(write(folder, LAYERS, "layers.py"))
    start = client.open(write(folder, program, "train.py"))
    assert client.lenses(start).count("Run") == 1
    client.command("fuselight.server.run", {"uri": start})
    client.idle(1)
    assert [graph_break["range"]["start"]["line"] for graph_break in breaks(client, uri)] == [GATE], (
        client.diagnostics(uri)
    )
    first = verified(client, uri, GATE)[0]
    assert first["title"].startswith("Use torch.where: "), first
    assert ", same results, but `self.scale` must be a finite number" in first["title"], first
    edit = client.request("codeAction/resolve", first)["edit"]
    assert "torch.where(x.mean() > 0, x * self.scale, x - self.scale)" in text_of(LAYERS, edit)
    client.apply(edit)
    client.command("fuselight.server.run", {"uri": start})
    client.idle(2)
    assert breaks(client, uri) == []
    lenses = [*result, "Run", "Details", "Kernels", "Accuracy", "Benchmark", "Tune"]
    # What to fix first is known when a change of it was tried.
    client.until(lambda: client.lenses(start) == lenses, "the lenses of the second run")


UNKEYED = """\
import torch
from torch._inductor.async_compile import AsyncCompile

AsyncCompile.cpp_pybinding = lambda *_: lambda *arguments: None  # no C++ compiler: the caches are the same


def tripled(x):
    return x * 3


torch.compiler.allow_in_graph(tripled)


# fuselight: shifted(f32[4])
@torch.compile
def shifted(x):
    return tripled(x) + 1
"""
SHIFTED = 14
"""0-based line of its first decorator, which a log names; the finding is on the `def`."""
REASON = (
    "Unsupported call_function target <function tripled at 0x7f>. \n Function module: model, \n"
    "Function name: tripled"
)


@pytest.mark.timeout(300)
def test_what_a_job_compiled_again_has_a_fix_that_two_starts_here_decide(
    client: Client, folder: Path, tmp_path: Path
) -> None:
    uri = run_in(client, folder, UNKEYED)
    client.idle(1)
    logs = tmp_path / "run"
    logs.mkdir()
    (logs / "dedicated_log_torch_trace_1.log").write_bytes(
        compiled(path="/cluster/model.py", function=("shifted", SHIFTED + 1), bypass=REASON)
    )
    client.request("fuselight/openJob", {"paths": [logs.as_uri()], "source": []})
    client.until(
        lambda: [item["code"] for item in client.diagnostics(uri)] == ["FL922"], "the finding of the job"
    )
    (finding,) = client.diagnostics(uri)
    line = finding["range"]["start"]["line"]
    title = "Give `tripled` a cache key: the hash of its file"

    def offers() -> list[Json]:
        return [action for action in client.actions(uri, line) if title in action["title"]]

    (offered,) = offers()
    assert offered["title"] == f"Verify and apply: {title}"
    assert offered["diagnostics"] == [finding]
    assert "data" not in offered, "nothing starts twice before it is chosen"
    at = {"textDocument": {"uri": uri}, "position": {"line": line, "character": 8}}
    hover = client.request("textDocument/hover", at)["contents"]["value"]
    assert "Fix, not tried yet" in hover

    since = client.mark()
    client.ask("workspace/executeCommand", offered["command"])
    begun = client.notified(
        "$/progress", lambda params: title in params["value"].get("message", ""), since=since
    )
    client.notify("window/workDoneProgress/cancel", {"token": begun["token"]})
    answer = client.notified("window/showMessage", since=since)["message"]
    assert answer == f"`{title}` was not applied: its verification was canceled."

    since = client.mark()
    client.ask("workspace/executeCommand", offered["command"])
    client.notified(
        "$/progress", lambda params: "second start" in params["value"].get("message", ""), since=since
    )
    applied = client.notified("workspace/applyEdit", since=since)
    assert applied["label"] == f"{title}: the second start reads it from the cache, same results"
    changed = text_of(UNKEYED, applied["edit"])
    assert "get_hash_for_files((__file__,))" in changed
    client.request("fuselight/closeJob", {"job": None})
    assert offers() == []
