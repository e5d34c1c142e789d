"""Runs end to end: messages of an editor, queue, real worker, findings on their lines."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from tests.server.conftest import interpreter, settings
from tests.server.programs import (
    PRINT,
    WAITING,
    breaks,
    caught,
    caught_in,
    codes,
    let_go,
    run_in,
    saved,
    wait_for_call,
    write,
)
from tests.support.lsp_client import DEADLINE, Client, Json
from tests.support.prepared import forks

if TYPE_CHECKING:
    from tests.server.conftest import Start

pytestmark = pytest.mark.torch


def worker_pid(client: Client) -> int:
    match = re.search(r"worker: pid (\d+)", client.command("fuselight.server.problemReport"))
    assert match is not None
    return int(match[1])


def test_a_save_brings_findings_to_their_lines(client: Client, folder: Path) -> None:
    uri = run_in(client, folder)
    status = client.idle(1)
    assert status["torch"]
    (graph_break,) = breaks(client, uri)
    assert graph_break["range"]["start"] == {"line": PRINT, "character": 4}
    assert graph_break["source"] == "fuselight"
    assert graph_break["codeDescription"]["href"].startswith("https://")
    assert "tags" not in graph_break, "Unnecessary would grey the user's code"
    assert client.lenses(uri) == [
        "2 graphs, 1 break",
        "recompiles if the batch changes",
        "Run",
        "Details",
        "Kernels",
        "Accuracy",
        "Memory",
        "Benchmark",
        "Tune",
    ]
    hover = client.request(
        "textDocument/hover", {"textDocument": {"uri": uri}, "position": {"line": 5, "character": 5}}
    )
    assert re.search(r"\d+ guards, checked in [\d.]+ µs", hover["contents"]["value"])
    markdown = client.command(
        "fuselight.server.copyFinding", {"uri": uri, "line": PRINT, "code": graph_break["code"]}
    )
    assert "print(x.sum())" in markdown
    (target,) = client.request("fuselight/reportTree", {"uri": uri})["nodes"]
    groups = {node["label"] for node in target["children"]}
    assert {"Calls (1)", "Frames (2)", "Graph breaks (1)"} <= groups
    expected = next(node for node in target["children"] if node["label"].startswith("Recompiles if ("))
    batch = expected["children"][0]
    assert batch["label"] == "the batch changes (x.size(0): 4 → 3)"
    assert (batch["uri"], batch["range"]["start"]["line"]) == (uri, PRINT)
    assert "`f` recompiles if:" in hover["contents"]["value"]
    (broken,) = next(node for node in target["children"] if node["label"] == "Graph breaks (1)")["children"]
    assert (broken["uri"], broken["range"]["start"]["line"]) == (uri, PRINT)


def test_the_lenses_are_asked_for_before_the_status_says_ready(client: Client, folder: Path) -> None:
    uri = run_in(client, folder)
    ready = client.idle(1)
    methods = [(message.get("method"), message.get("params")) for message in client.messages]
    index = methods.index(("fuselight/reportChanged", {"uri": uri}))
    end = methods.index(("fuselight/status", ready))
    assert "workspace/codeLens/refresh" in [method for method, _ in methods[index:end]]


TWICE = """\
import torch


# fuselight: f(f32[4, 8])
# fuselight: f(f32[7, 8])
@torch.compile
def f(x):
    print(x.sum())
    return x * 2
"""


def test_the_hover_and_the_report_list_the_parts_of_a_function(client: Client, folder: Path) -> None:
    uri = run_in(client, folder, TWICE)
    client.idle(1)
    lenses = client.lenses(uri)
    assert (lenses[0], lenses[-1]) == ("2 graphs, 1 break, 2 recompilations", "inputs from lines 4-5")
    client.edit(uri, (0, 0), (0, 0), "import math\n")
    hover = client.request(
        "textDocument/hover", {"textDocument": {"uri": uri}, "position": {"line": 7, "character": 5}}
    )
    head, _, *compiles = hover["contents"]["value"].split("\n\n---\n\n")[-1].split("\n")
    assert head == "`f`: 2 graphs, 4 compiles *(before your edit)*"
    fact = r": 1 operator, \d+ guards, checked in [\d.]+ µs"
    for line, part in zip(compiles, ("", " from line 9 on") * 2, strict=True):
        assert re.fullmatch(rf"- compile \d/\d{part}{fact}", line), hover
    (target,) = client.request("fuselight/reportTree", {"uri": uri})["nodes"]
    groups = {node["label"]: node["children"] for node in target["children"]}
    assert [node["label"] for node in groups["Frames (2)"]] == ["f", "f, from line 9 on"]
    assert [node["range"]["start"]["line"] for node in groups["Frames (2)"]] == [7, 8]
    (broken,) = groups["Graph breaks (1)"]
    assert broken["description"] == "line 9, 2 times"


CARRIED = """\
import torch


# fuselight: f(torch.ones(4))
# fuselight: f(torch.ones(8))
@torch.compile
def f(x):
    total = x.sum().item()
    return x * 2 if total > 1 else x
"""


def test_the_report_describes_a_recompilation_like_its_finding(client: Client, folder: Path) -> None:
    uri = run_in(client, folder, CARRIED)
    client.idle(1)
    diagnostics = [diagnostic for diagnostic in client.diagnostics(uri) if diagnostic["code"] == "FL201"]
    assert any("total was 4.0, now 8.0" in diagnostic["message"] for diagnostic in diagnostics), diagnostics

    def listed(kind: str) -> list[Json]:
        (target,) = client.request("fuselight/reportTree", {"uri": uri})["nodes"]
        (group,) = (node for node in target["children"] if node["label"].startswith(kind))
        children: list[Json] = group["children"]
        return children

    nodes = listed("Recompilations")
    assert not [node for node in nodes if "___stack" in node["label"]]
    for diagnostic in diagnostics:
        difference = diagnostic["message"].splitlines()[0].removeprefix("recompiled: ")
        same = [node for node in nodes if node["label"] == f"f: {difference}"]
        assert same, (difference, nodes)
        assert same[0]["range"]["start"] == diagnostic["range"]["start"]
    (broken,) = listed("Graph breaks")
    assert broken["label"] == "GB0124: `.item()` converts a tensor to a Python number"
    before = [node["range"]["start"]["line"] for node in (*nodes, broken)]
    client.edit(uri, (0, 0), (0, 0), "import math\n")
    after = [node["range"]["start"]["line"] for node in (*listed("Recompilations"), *listed("Graph breaks"))]
    assert after == [line + 1 for line in before]


def progress(client: Client) -> list[Json]:
    """What the client shows of the first work, a run: its advice is tried after it."""
    client.request("fuselight/reportTree", {"uri": None})
    first = next(
        message["params"]["token"] for message in client.messages if message.get("method") == "$/progress"
    )
    return [
        message["params"]["value"]
        for message in client.messages
        if message.get("method") == "$/progress" and message["params"]["token"] == first
    ]


def test_progress_is_begun_moved_on_and_ended(client: Client, folder: Path) -> None:
    run_in(client, folder)
    client.idle(1)
    begin, *reports, end = progress(client)
    assert (begin["kind"], begin["message"], begin["cancellable"]) == ("begin", "starting f", True)
    assert {report["kind"] for report in reports} == {"report"}, reports
    assert (end["kind"], list(end)) == ("end", ["kind"])
    assert re.fullmatch(r"tracing frame \d+, model\.py:\d+", reports[-1]["message"]), reports
    assert not [report for report in (begin, *reports) if "percentage" in report], (
        "nobody knows how much is left"
    )
    known: set[str] = set()  # a client drops what comes for a token that it was not asked to make
    for message in client.messages:
        if message.get("method") == "window/workDoneProgress/create":
            known.add(message["params"]["token"])
        assert message.get("method") != "$/progress" or message["params"]["token"] in known
    assert known


def test_the_next_run_clears_fixed_findings(client: Client, folder: Path) -> None:
    uri = run_in(client, folder)
    client.idle(1)
    assert breaks(client, uri)
    client.edit(uri, (PRINT, 4), (PRINT, 18), "y = x.sum()")
    client.request("fuselight/reportTree", {"uri": None})
    (edited,) = breaks(client, uri)
    assert edited["severity"] == 3
    assert edited["message"].startswith("before your edit: ")
    assert "(before your edit)" in str(client.lenses(uri)[:2])
    client.save(uri)  # not written to disk: the buffer is what counts
    client.idle(2)
    assert breaks(client, uri) == []
    assert not [text for text in client.lenses(uri) if text.endswith("(before your edit)")]


def test_a_new_server_shows_the_findings_of_the_last_run_without_a_run(
    connect: Start, tmp_path: Path
) -> None:
    (tmp_path / "pyproject.toml").touch()
    first = connect()
    uri = saved(first, tmp_path)
    first.idle(1)
    (before,) = breaks(first, uri)
    assert first.stop() == 0
    second = connect()
    second.start(tmp_path)
    published = second.notified("textDocument/publishDiagnostics", lambda params: params["uri"] == uri)
    assert [diagnostic["range"] for diagnostic in published["diagnostics"]] == [before["range"]]
    second.open(Path(tmp_path, "model.py"))
    (lens,) = (text for text in second.lenses(uri) if text.startswith("2 graphs, 1 break"))
    assert re.fullmatch(r".* \(from \d{4}-\d\d-\d\d \d\d:\d\d\)", lens)
    assert "worker: not started" in second.command("fuselight.server.problemReport")
    second.command("fuselight.server.clearCaches")
    assert breaks(second, uri) == []
    assert not (tmp_path / ".fuselight").exists()


def test_findings_of_a_run_follow_edits_of_their_lines(client: Client, folder: Path) -> None:
    path, uri = caught_in(client, folder)
    client.edit(uri, (0, 0), (0, 0), "# one\n# two\n# three\n")
    let_go(path)
    client.idle(1)
    (graph_break,) = breaks(client, uri)
    assert graph_break["range"]["start"]["line"] == 12 + 3
    assert not graph_break["message"].startswith("before your edit"), "its own line was not edited"
    assert "(before your edit)" in str(client.lenses(uri)[:2])


def test_a_canceled_run_ends_and_the_next_one_works(client: Client, folder: Path) -> None:
    path, uri = caught_in(client, folder)
    assert "Cancel" in client.lenses(uri)
    client.command("fuselight.server.cancel", {"uri": uri})
    client.idle(1)
    assert breaks(client, uri) == []
    let_go(path)
    client.command("fuselight.server.run", {"uri": uri, "target": "f"})
    client.idle(2)
    assert len(breaks(client, uri)) == 1


def test_progress_has_a_cancel_button_that_cancels(client: Client, folder: Path) -> None:
    caught_in(client, folder)
    begun = client.notified("$/progress", lambda params: params["value"]["kind"] == "begin")
    client.notify("window/workDoneProgress/cancel", {"token": begun["token"]})
    client.idle(1)
    assert [entry["kind"] for entry in progress(client)].count("end") == 1


def test_saves_during_a_run_leave_one_queued_run(client: Client, folder: Path) -> None:
    path, uri = caught_in(client, folder)
    for number in range(4):
        client.edit(uri, (13, 16), (13, 16), f" + {number}")
        client.save(uri)
    let_go(path)
    client.idle(5)
    lines = [
        message["params"]["message"]
        for message in client.messages
        if message.get("method") == "window/logMessage"
    ]
    took = [line for line in lines if re.fullmatch(r"run \d+ of f took [\d.]+ s", line)]
    assert [line.split()[1] for line in took] == [str(client.before + 5)], lines
    assert len(breaks(client, uri)) == 1


def test_a_newer_save_supersedes_the_run_in_flight(client: Client, folder: Path) -> None:
    path, uri = caught_in(client, folder)
    client.edit(uri, (12, 4), (12, 18), "y = x.sum()")
    client.save(uri)
    first = f"run {client.before + 1} of f cancelled"
    client.notified("window/logMessage", lambda params: params["message"] == first)
    let_go(path)
    client.idle(2)
    assert breaks(client, uri) == []


def test_a_killed_worker_is_a_finding_and_a_shutdown_in_the_middle_of_the_next_run_leaves_no_process(
    connect: Start, tmp_path: Path
) -> None:
    others = forks()
    client = connect()
    path, uri = caught(client, tmp_path)
    os.kill(worker_pid(client), signal.SIGKILL)
    client.idle(1)
    assert any(code.startswith("FL4") for code in codes(client, uri)), client.diagnostics(uri)
    assert [entry["kind"] for entry in progress(client)][-1] == "end"
    let_go(path)
    client.save(uri)
    client.idle(2)
    assert len(breaks(client, uri)) == 1
    assert not any(code.startswith("FL4") for code in codes(client, uri))
    (tmp_path / "again").mkdir()
    mark = client.mark()
    run_in(client, tmp_path / "again", WAITING)
    wait_for_call(client, mark)
    children = psutil.Process(client.process.pid).children(recursive=True)
    children += [process for process in forks() if process not in others]
    assert len(children) > 1, "a worker and its run"
    assert client.stop() == 0
    _, alive = psutil.wait_procs(children, timeout=DEADLINE)
    assert alive == []


def test_a_failed_run_keeps_earlier_findings(client: Client, folder: Path) -> None:
    uri = run_in(client, folder)
    client.idle(1)
    client.edit(uri, (0, 0), (0, 0), "1 / 0\n")
    client.save(uri)
    client.idle(2)
    assert len(breaks(client, uri)) == 1
    assert "FL401" in codes(client, uri)


def test_each_folder_has_its_own_worker(connect: Start, tmp_path: Path) -> None:
    folders = [tmp_path / "one", tmp_path / "two"]
    client = connect()
    for folder in folders:
        folder.mkdir()
    client.start(*folders)
    uris = [client.open(write(folder)) for folder in folders]
    for uri in uris:
        client.save(uri)
    client.idle(2)
    assert all(len(breaks(client, uri)) == 1 for uri in uris)
    report = client.command("fuselight.server.problemReport")
    assert len(set(re.findall(r"worker: pid (\d+)", report))) == 2


def test_a_file_outside_all_folders_runs_too(connect: Start, tmp_path: Path) -> None:
    client = connect()
    client.start()
    uri = client.open(write(tmp_path))
    client.save(uri)
    client.idle(1)
    assert len(breaks(client, uri)) == 1


def test_an_untrusted_workspace_runs_nothing_until_it_is_trusted(connect: Start, tmp_path: Path) -> None:
    client = connect()
    client.start(tmp_path, options={"trusted": False})
    uri = client.open(write(tmp_path))
    client.save(uri)
    assert client.lenses(uri) == ["inputs from line 4"], "what cannot run is not offered"
    client.command("fuselight.server.run", {"uri": uri, "target": "f"})
    assert client.notified("fuselight/status")["state"] == "untrusted"
    assert psutil.Process(client.process.pid).children() == []
    client.edit(uri, (3, 0), (4, 0), "")
    assert client.lenses(uri) == []
    assert codes(client, uri) == ["FL502"], "what the source alone shows stays"
    client.edit(uri, (3, 0), (3, 0), "# fuselight: f(f32[4, 8])\n")
    client.notify("fuselight/trust", {"trusted": True})
    assert client.lenses(uri)[:6] == ["Run", "Kernels", "Accuracy", "Memory", "Benchmark", "Tune"]
    client.save(uri)
    client.notified(
        "fuselight/status", lambda status: status["state"] == "idle" and status["generation"] == 1
    )
    assert len(breaks(client, uri)) == 1


def test_a_folder_with_a_refusal_runs_nothing(connect: Start, tmp_path: Path) -> None:
    client = connect(confirm="never")
    uri = saved(client, tmp_path)
    asked = client.wait(lambda message: message.get("method") == "fuselight/confirmRun", "the question")[
        "params"
    ]
    when = "on each save and while you edit"
    assert (
        asked["detail"]
        == f"Fuselight will import model.py and call f, {when}, with {interpreter()['executable']}."
    )
    assert asked["explicit"] is False
    client.notified("fuselight/status", lambda status: status["text"] == "runs off")
    client.save(uri)
    client.request("fuselight/reportTree", {"uri": None})
    assert psutil.Process(client.process.pid).children() == []
    assert (
        len([message for message in client.messages if message.get("method") == "fuselight/confirmRun"]) == 1
    )


def test_manual_runs_wait_for_the_command(connect: Start, tmp_path: Path) -> None:
    client = connect(settings=settings(run="manual"))
    client.start(tmp_path)
    client.idle(0)
    uri = client.open(write(tmp_path))
    client.save(uri)
    client.request("fuselight/reportTree", {"uri": None})
    assert psutil.Process(client.process.pid).children() == []
    client.command("fuselight.server.run", {"uri": uri, "target": None})
    client.idle(1)
    assert len(breaks(client, uri)) == 1


def test_automatic_saves_are_not_a_run_each(client: Client, folder: Path) -> None:
    uri = client.open(write(folder))
    client.save(uri, reason=2)
    client.idle(1)
    mark = client.mark()
    client.save(uri, reason=2)  # nothing changed
    client.edit(uri, (7, 16), (7, 16), " + 1")
    client.save(uri, reason=2)  # too soon: one later
    client.edit(uri, (7, 16), (7, 16), " + 1")
    client.save(uri, reason=2)
    client.notified("window/logMessage", lambda params: "the next run of it" in params["message"], since=mark)
    client.idle(2)
    started = [
        message["params"]["message"]
        for message in client.messages
        if message.get("method") == "window/logMessage"
        and re.match(r"run \d+ of f in", message["params"]["message"])
    ]
    assert len(started) == 2


def test_broken_interpreters_are_named_and_another_one_works(connect: Start, tmp_path: Path) -> None:
    missing = settings(resolvedInterpreter=interpreter(executable="/nowhere/python"))
    client = connect(settings=missing)
    uri = saved(client, tmp_path)
    status = client.notified("fuselight/status", lambda params: params["state"] == "noInterpreter")
    assert "/nowhere/python" in status["detail"]
    client.idle(1)
    mark = client.mark()
    client.settings = settings(resolvedInterpreter=interpreter("-I", "-S"))
    client.notify("fuselight/interpreterChanged", {"folder": tmp_path.as_uri()})
    client.notified(
        "fuselight/status",
        lambda params: params["state"] == "noInterpreter" and "torch" in params["detail"],
        since=mark,
    )
    client.idle(2)
    client.settings = settings()
    mark = client.mark()
    client.notify("fuselight/interpreterChanged", {"folder": tmp_path.as_uri()})
    client.notified(
        "fuselight/status", lambda params: params["interpreter"] == interpreter()["executable"], since=mark
    )
    client.idle(3)
    # Without a save, targets that the other interpreter could not run are run again.
    client.until(lambda: len(breaks(client, uri)) == 1, "the break")
    assert "FL504" not in codes(client, uri)


def test_an_invalid_answer_of_a_worker_ends_only_the_run(connect: Start, tmp_path: Path) -> None:
    babble = tmp_path / "babble.py"
    babble.write_text("import os\nos.write(1, b'\\xff' * 64)\n", encoding="utf-8")
    client = connect(settings=settings(resolvedInterpreter=interpreter(str(babble))))
    uri = saved(client, tmp_path)
    client.idle(1)
    assert any(code in {"FL403", "FL409", "FL504"} for code in codes(client, uri)), client.diagnostics(uri)
    assert client.lenses(uri)[1:] == ["Run", "Details"], "what cannot work is not offered"


def test_deleting_a_file_removes_its_findings(client: Client, folder: Path) -> None:
    path = write(folder)
    uri = client.open(path)
    client.save(uri)
    client.idle(1)
    assert breaks(client, uri)
    client.notify("textDocument/didClose", {"textDocument": {"uri": uri}})
    assert breaks(client, uri), "a closed file keeps its findings in the list of problems"
    path.unlink()
    client.notify("workspace/didChangeWatchedFiles", {"changes": [{"uri": uri, "type": 3}]})
    client.request("fuselight/reportTree", {"uri": None})
    assert client.diagnostics(uri) == []
