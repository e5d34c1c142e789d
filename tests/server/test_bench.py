"""A benchmark over the protocol: a real one on the CPU, end to end, and one that is canceled."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from tests.server.conftest import settings
from tests.server.programs import WAITING, let_go, write
from tests.server.test_kernels import by_line, hover
from tests.support.prepared import forks

if TYPE_CHECKING:
    from pathlib import Path

    from tests.server.conftest import Start
    from tests.support.lsp_client import Client, Json

pytestmark = pytest.mark.torch

SOURCE = """\
import torch


# fuselight: f(f32[256, 1024])
@torch.compile
def f(x):
    y = x.exp() + 1
    return y.sum(1)
"""
TARGET, EXP, SUM = 5, 6, 7
"""0-based lines."""
CLIENT = {
    "clientCommands": ["fuselight.showDetails", "fuselight.benchmark", "fuselight.showBenchmark"],
}
QUICK = {"seconds": 0.2, "rounds": 2}


def page_of(client: Client, uri: str, **more: Any) -> Json:
    request: Json = client.request("fuselight/measured", {"uri": uri, "target": "f", **more})
    return request


def told_whole(page: Json) -> None:
    """Check the parts of the page of `f` that do not depend on the machine."""
    eager, written = page["configurations"]
    assert (eager["name"], written["name"], eager["failure"], written["failure"]) == (
        "eager",
        "written",
        None,
        None,
    )
    assert 0 < eager["us"] < eager["first_us"] * 1000
    assert written["first_us"] > 10 * written["us"], "the first call compiles"
    assert written["speedup"] == pytest.approx(eager["us"] / written["us"])
    assert written["accuracy"]["passed"] is True, written["accuracy"]
    assert (written["graph_breaks"], written["recompiles"]) == (0, 0)
    assert page["verdict"]
    assert {fact["name"] for fact in page["machine"]} >= {"device", "threads", "torch"}
    details = page["profiles"]["written"]
    assert {line["place"]["line"] for line in details["lines"]} >= {EXP, SUM}
    assert details["lines"][0]["place"]["text"] in SOURCE
    assert details["joined"] > 0.9
    assert sum(part["us"] for part in details["where"]) == pytest.approx(details["wall_us"], rel=0.03)
    assert details["steps"], "the phases of the cold compile"


def assert_a_file_is_compared_with(client: Client, uri: str, file: Path, exported: str, same: Any) -> None:
    file.write_text(exported, encoding="utf-8")
    assert page_of(client, uri, **{"with": str(file)})["comparison"] == same
    file.write_text("{}", encoding="utf-8")
    refused = page_of(client, uri, **{"with": str(file)})
    assert refused["comparison"] is None
    assert any(f"{file} cannot be compared with: no benchmark is in it" in note for note in refused["notes"])


def test_a_benchmark_puts_measured_times_on_their_lines(connect: Start, tmp_path: Path) -> None:
    client = connect(settings=settings(bench=QUICK))
    client.start(tmp_path, options=CLIENT)
    uri = client.open(write(tmp_path, SOURCE))
    client.until(lambda: by_line(client, uri) != {}, "lenses")
    assert by_line(client, uri) == {
        TARGET: ["Run", "Kernels", "Accuracy", "Memory", "Benchmark", "Tune", "inputs from line 4"]
    }
    assert page_of(client, uri)["message"] == "Press Benchmark above f to measure it."
    started = client.command("fuselight.server.bench", {"uri": uri, "line": SUM})
    assert started == {"started": True, "target": "f", "message": "f: eager, written"}
    client.notified("fuselight/status", lambda status: status["running"] == ["f (benchmark)"])
    client.notified(
        "$/progress", lambda params: str(params["value"].get("message")).startswith("Benchmarking f: ")
    )
    client.save(uri)
    client.idle(2, deadline=280)
    assert "1 graph, no breaks" in by_line(client, uri)[TARGET][:2]
    page = page_of(client, uri)
    assert (page["found"], page["running"], page["stale"]) == (True, False, False)
    told_whole(page)
    lenses = by_line(client, uri)
    summary = next(text for text in lenses[TARGET] if text.startswith("eager "))
    assert len(summary) <= 60
    assert ", measured on " in hover(client, uri, TARGET)
    assert lenses[EXP][0].startswith("1 kernel, ")
    assert " ± " in lenses[EXP][0]
    assert "~" not in lenses[EXP][0]
    assert "| measured | " in hover(client, uri, SUM)
    heat = client.request("fuselight/kernelLines", {"uri": uri})["lines"]
    assert {value["line"] for value in heat} >= {EXP, SUM}
    assert {diagnostic["code"] for diagnostic in client.diagnostics(uri)} <= {"FL802"}

    (past,) = page["history"]
    assert past["device"] in hover(client, uri, EXP)
    same = page_of(client, uri, **{"with": past["id"]})["comparison"]
    assert [configuration["change"] for configuration in same["configurations"]] == [None, None]
    exported = client.request("fuselight/measuredExport", {"uri": uri, "target": "f", "format": "json"})
    assert json.loads(exported["text"])["run"]["report"]["measured"]["finished"] is True
    assert_a_file_is_compared_with(client, uri, tmp_path / "elsewhere.json", exported["text"], same)

    since = client.mark()
    client.edit(uri, (EXP, 0), (EXP, 0), "    x = x.contiguous()\n")
    client.notified("fuselight/measuredChanged", lambda params: params["uri"] == uri, since=since)
    assert page_of(client, uri)["stale"]
    moved = by_line(client, uri)
    assert "(before your edit)" in hover(client, uri, SUM + 1)
    assert any(text.endswith("(before your edit)") for text in moved[TARGET])
    since = client.mark()
    client.edit(uri, (EXP, 0), (EXP + 1, 0), "")
    client.notified("fuselight/measuredChanged", lambda params: params["uri"] == uri, since=since)
    assert not page_of(client, uri)["stale"], "undone"
    assert by_line(client, uri)[SUM] == lenses[SUM]
    client.command("fuselight.server.clearCaches")
    assert not page_of(client, uri)["found"]


PROGRAM = """\
import torch


@torch.compile
def f(x):
    return x.exp() + 1


if __name__ == "__main__":
    f(torch.ones(16, 8))
"""


def test_inputs_of_the_main_block_serve_every_tier(connect: Start, tmp_path: Path) -> None:
    client = connect(settings=settings(bench=QUICK, run="manual"), confirm="command")
    client.start(tmp_path, options=CLIENT)
    uri = client.open(write(tmp_path, PROGRAM))
    client.command("fuselight.server.run", {"uri": uri, "target": "f"})
    client.idle(1)
    assert by_line(client, uri)[4][-1] == "inputs from the __main__ block"
    client.command("fuselight.server.kernels", {"uri": uri, "target": "f"})
    client.idle(2)
    assert any(text.startswith("1 kernel, ") for text in by_line(client, uri)[4]), client.lenses(uri)
    client.command("fuselight.server.bench", {"uri": uri, "target": "f", "configurations": ["eager"]})
    client.idle(3, deadline=280)
    page = page_of(client, uri)
    assert page["inputs"] == ["f(f32[16, 8])"], page
    (eager,) = page["configurations"]
    assert eager["failure"] is None


def test_a_cancel_and_a_server_shutdown_end_a_benchmark_immediately(connect: Start, tmp_path: Path) -> None:
    before = forks()
    client = connect(settings=settings(bench=QUICK))
    client.start(tmp_path, options=CLIENT)
    path = write(tmp_path, WAITING)
    uri = client.open(path)
    assert client.command("fuselight.server.bench", {"uri": uri, "target": "f"})["started"]
    client.notified("fuselight/status", lambda status: status["running"] == ["f (benchmark)"])
    assert page_of(client, uri)["running"]
    client.command("fuselight.server.cancelBench", {"uri": uri, "target": "f"})
    client.idle(1)
    assert not page_of(client, uri)["running"]
    let_go(path)
    unknown = client.command(
        "fuselight.server.bench", {"uri": uri, "target": "f", "configurations": ["maxautotune"]}
    )
    assert unknown["started"] is False
    assert "did you mean 'max-autotune'?" in unknown["message"]

    uri = client.open(write(tmp_path, WAITING, name="second.py"))
    mark = client.mark()
    assert client.command("fuselight.server.bench", {"uri": uri, "target": "f"})["started"]
    client.notified(
        "$/progress",
        lambda params: str(params["value"].get("message")).startswith("Benchmarking f: "),
        since=mark,
    )
    server = psutil.Process(client.process.pid)
    forked = [process for process in forks() if process not in before]
    processes = [*server.children(recursive=True), *forked]
    assert len(processes) > 2, "a host, what stands for it, and what it measures in"
    assert client.stop() == 0
    _, alive = psutil.wait_procs(processes, timeout=30)
    assert not alive


def test_nonsensical_requests_are_answered(connect: Start, tmp_path: Path) -> None:
    client = connect(settings=settings(bench=QUICK))
    client.start(tmp_path, options=CLIENT)
    uri = client.open(write(tmp_path, SOURCE, name="a b, \u00fc.py"))
    there = {"uri": uri, "target": "f"}
    assert page_of(client, uri)["path"] == "a b, \u00fc.py"
    assert not page_of(client, uri, run="../../etc/passwd", **{"with": "nothing"})["found"]
    assert client.command("fuselight.server.bench", {"uri": uri, "line": "5"})["started"] is False
    assert client.command("fuselight.server.bench") == {
        "started": False, "target": None, "message": "Fuselight runs files only: save this to a file first.",
    }  # fmt: skip
    assert client.command("fuselight.server.cancelBench", {"uri": uri, "target": 7}) is None
    for refused, why in (
        ({**there, "format": "json"}, "There is no benchmark to export."),
        ({**there, "format": "exe"}, "A benchmark is exported as one of json, csv, html."),
    ):
        answer = client.answer(client.ask("fuselight/measuredExport", refused))
        assert answer["error"]["message"].startswith(why)
