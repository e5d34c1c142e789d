"""Lanes of searches and replays on a machine with several GPUs, and how their output is added to the results."""

from __future__ import annotations

import json
import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import replay, tuning_on_gpus
from benchmarks.tuning_on_gpus import Lane, collect, lanes_of, merged, replays, run_lane, searches
from fuselight.shared import tuned_file
from fuselight.shared.report import Numerics, TunedGraph, TunedResult, Work


def test_searches_of_one_budget_are_one_command(tmp_path: Path) -> None:
    texts = searches("a:90,b:90,c:300,d:90", tmp_path, 2, ["--fixed-modules"], 560.0)
    assert [text[:5] for text in texts] == [
        ("benchmarks.tune_models", "--models", "a,b", "--budget", "90"),
        ("benchmarks.tune_models", "--models", "c", "--budget", "300"),
        ("benchmarks.tune_models", "--models", "d", "--budget", "90"),
    ]
    assert all(text[-1] == "--fixed-modules" for text in texts)
    assert len({text[text.index("--out") + 1] for text in texts}) == 1


def test_a_search_without_a_budget_says_how_to_write_it(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no budget for 'b' in 'a:90,b': write b:120"):
        searches("a:90,b", tmp_path, 0, [], 560.0)


def test_lanes_take_turns_on_the_gpus_and_share_their_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,GPU-7")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(8)), raising=False)
    lanes = lanes_of([[("one",)], [("two",)], [("three",)]])
    assert [(lane.gpu, sorted(lane.cores)) for lane in lanes] == [
        ("4", [0, 1, 2, 3]),
        ("GPU-7", [4, 5, 6, 7]),
        ("4", [0, 1, 2, 3]),
    ]


def test_without_a_gpu_a_lane_has_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 1}, raising=False)
    (lane,) = lanes_of([[("one",)]])
    assert (lane.gpu, lane.cores) == ("", frozenset({0, 1}))


@pytest.mark.slow
def test_a_lane_ends_in_time_and_starts_nothing_too_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    began, now = tmp_path / "began", [0.0]
    (tmp_path / "sleeps.py").write_text(
        "import sys, time\nprint('started', flush=True)\nopen(sys.argv[1], 'w').close()\ntime.sleep(1000)\n"
    )

    class LateProcess(subprocess.Popen[bytes]):
        """Its limit has passed when it has started, as on any machine in the end."""

        def wait(self, timeout: float | None = None) -> int:
            while not began.exists() and self.poll() is None:
                time.sleep(0.01)
            now[0] += timeout or 0
            return super().wait(0 if timeout == 3.0 else timeout)

    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(tuning_on_gpus, "_LEAST_SECONDS", 0.5)
    monkeypatch.setattr(tuning_on_gpus, "time", SimpleNamespace(monotonic=lambda: now[0]))
    monkeypatch.setattr(subprocess, "Popen", LateProcess)
    lane = Lane(0, "", frozenset(), (("sleeps", str(began)), ("sleeps", str(began))))
    assert run_lane(lane, tmp_path, 3.0) == 1
    capture_result = capfd.readouterr()
    assert capture_result.out.count("started") == 1
    assert "no time for sleeps" in capture_result.err


def test_a_command_that_fails_does_not_hold_up_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "fails.py").write_text("raise SystemExit(3)\n")
    (tmp_path / "works.py").write_text("print('worked', flush=True)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    lane = Lane(0, "", frozenset(), (("fails",), ("works",)))
    assert run_lane(lane, tmp_path, time.monotonic() + 60.0) == 3
    assert "worked" in capfd.readouterr().out


def test_a_search_knows_how_much_time_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "benchmarks").mkdir()
    (tmp_path / "benchmarks" / "tune_models.py").write_text("import sys\nprint(sys.argv[1:], flush=True)\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (search,) = searches("a:90", tmp_path, 0, [], 120.0)
    assert run_lane(Lane(0, "", frozenset(), (search,)), tmp_path, time.monotonic() + 120.0) == 0
    assert capfd.readouterr().out.rstrip().endswith("'--minutes', '2.00']")


def _result(name: str, us: float) -> TunedResult:
    return TunedResult(f"{name}.py", "call", Work.INFERENCE, Numerics.EXACT, "NVIDIA H100", us=us)


def _write(path: Path, *rows: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def _read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_what_the_lanes_wrote_is_collected_and_added_to_the_results(tmp_path: Path) -> None:
    pages, run = tmp_path / "pages", tmp_path / "run"
    _write(
        pages / "tuning.jsonl",
        {"model": "b", "seconds": 1, "replayed": {"us": 10}},
        {"model": "a", "seconds": 2},
    )
    tuned_file.keep(pages / tuned_file.NAME, [_result("a", 100.0), _result("b", 10.0)])
    _write(run / "lanes" / "search0" / "models.jsonl", {"model": "a", "seconds": 3})
    tuned_file.keep(run / "lanes" / "search0" / tuned_file.NAME, [_result("a", 90.0)])
    _write(run / "lanes" / "search1" / "models.jsonl", {"model": "b", "failure": "the worker ended"})
    (run / "lanes" / "replay0").mkdir()
    (run / "lanes" / "replay0" / "replays.jsonl").write_text('{"model": "a", "us": 91}\n{"model": "b", "us"')
    collect(run)
    assert _read(run / "models.jsonl") == [
        {"model": "a", "seconds": 3},
        {"model": "b", "failure": "the worker ended"},
    ]
    _write(run / "lanes" / "search2" / "models.jsonl", {"model": "a", "failure": "cut off"})
    collect(run)
    assert _read(run / "models.jsonl")[0] == {"model": "a", "seconds": 3}
    assert merged(pages, [run]) == "a: searched, replayed"
    assert _read(pages / "tuning.jsonl") == [
        {"model": "b", "seconds": 1, "replayed": {"us": 10}},
        {"model": "a", "seconds": 3, "replayed": {"model": "a", "us": 91}},
    ]
    kept = tuned_file.read(pages / tuned_file.NAME)
    assert kept is not None
    assert {tuned_result.file: tuned_result.us for tuned_result in kept.results} == {
        "a.py": 90.0,
        "b.py": 10.0,
    }


def test_a_copy_of_older_results_replaces_no_later_one(tmp_path: Path) -> None:
    pages, first, second = (tmp_path / name for name in ("pages", "first", "second"))
    old, later = (
        replace(_result("a", 100.0), when="2026-11-24"),
        replace(_result("a", 90.0), when="2026-11-25"),
    )
    for folder, tuned_result in ((pages, old), (first, later), (second, old)):
        folder.mkdir()
        tuned_file.keep(folder / tuned_file.NAME, [tuned_result])
        row = {"model": "a", "tuned": {"started": tuned_result.when}}
        _write(folder / ("tuning.jsonl" if folder is pages else "models.jsonl"), row)
    assert merged(pages, [first, second]) == "a: searched"
    assert _read(pages / "tuning.jsonl")[0]["tuned"] == {"started": later.when}
    kept = tuned_file.read(pages / tuned_file.NAME)
    assert kept is not None
    assert kept.results == (later,)


def test_the_latest_result_of_a_model_for_this_machine_is_replayed(tmp_path: Path) -> None:
    later, old = (
        replace(_result("a", us), when=when, graphs=(TunedGraph(when),))
        for us, when in ((90.0, "2026-11-25"), (100.0, "2026-11-24"))
    )
    other = replace(_result("a", 80.0), when="2026-11-26", device="another GPU")
    newer_torch = replace(_result("a", 70.0), when="2026-11-26", torch="2.99")
    tuned_file.keep(tmp_path / tuned_file.NAME, [later, old, other, newer_torch])
    here, there = (
        (tuned_result.device, tuned_result.capability, tuned_result.torch, tuned_result.triton)
        for tuned_result in (later, other)
    )
    assert replay.results_of(tmp_path, [here]) == (later,)
    assert replay.results_of(tmp_path, [here, there]) == (other,), "a model has one row"
    with pytest.raises(SystemExit, match=r"no result in .* is for this machine: a GPU of tomorrow"):
        replay.results_of(tmp_path, [("a GPU of tomorrow", "", "", "")])


def test_a_new_search_has_no_replay_yet(tmp_path: Path) -> None:
    pages, run = tmp_path / "pages", tmp_path / "run"
    _write(pages / "tuning.jsonl", {"model": "a", "seconds": 2, "replayed": {"us": 10}})
    _write(run / "models.jsonl", {"model": "a", "seconds": 3})
    assert merged(pages, [run]) == "a: searched"
    assert _read(pages / "tuning.jsonl") == [{"model": "a", "seconds": 3, "replayed": {}}]


def test_a_compile_alone_is_added_to_a_search_on_the_same_device(tmp_path: Path) -> None:
    pages, run = tmp_path / "pages", tmp_path / "run"
    entries = {"made": {"device": "H100"}}
    _write(pages / "tuning.jsonl", {"model": "a", **entries}, {"model": "b", "made": {"device": "H200"}})
    row = {"device": "H100", "torch": "2.11", "us": 50.0, "first": 60.0, "seconds": 70.0}
    _write(run / "alone.jsonl", *({"model": name, **row, "kernels": {"gemm": {}}} for name in "abc"))
    assert merged(pages, [run]) == "a: max-autotune alone"
    assert _read(pages / "tuning.jsonl") == [
        {"model": "a", **entries, "alone": row},
        {"model": "b", "made": {"device": "H200"}},
    ]


def test_a_compile_that_was_late_does_not_replace_one_that_was_not(tmp_path: Path) -> None:
    pages, run = tmp_path / "pages", tmp_path / "run"
    entries, known = {"device": "H100"}, {"device": "H100", "first": 60.0}
    _write(
        pages / "tuning.jsonl",
        {"model": "a", "made": entries},
        {"model": "b", "made": entries, "alone": known},
    )
    late = {"device": "H100", "torch": "2.11", "late": 140.0}
    _write(run / "alone.jsonl", *({"model": name, **late} for name in "ab"))
    assert merged(pages, [run]) == "a: max-autotune alone"
    assert [row["alone"] for row in _read(pages / "tuning.jsonl")] == [late, known]


def test_replays_leave_time_to_write_what_is_ready(tmp_path: Path) -> None:
    ((*command,),) = replays("a,b", tmp_path, 0, ["--processes", "3"], 540.0)
    assert command[:2] == ["benchmarks.replay", str(tmp_path)]
    assert float(command[command.index("--minutes") + 1]) * 60 == pytest.approx(440, abs=1)
