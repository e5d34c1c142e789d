"""The order of compiles, searches and replays on several GPUs, and what a search may take."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest

from benchmarks import tuning_goal
from benchmarks.cores import allowed_cores
from benchmarks.tuning_on_gpus import Lane


def write_compile(folder: Path, name: str, **seconds: float) -> None:
    path = folder / "lanes" / name / "alone.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({"model": name, **seconds}) + "\n")


def test_a_search_gets_less_time_than_the_compile_took(tmp_path: Path) -> None:
    write_compile(tmp_path, "fast", first=60.0)
    write_compile(tmp_path, "slow", first=400.0)
    write_compile(tmp_path, "late", late=100.0)
    assert tuning_goal.budget_for("fast", tmp_path, 150.0) == 57
    assert tuning_goal.budget_for("slow", tmp_path, 150.0) == 150
    assert tuning_goal.budget_for("late", tmp_path, 150.0) == 95
    assert tuning_goal.budget_for("failed", tmp_path, 150.0) == 150


def test_each_gpu_does_one_thing_at_a_time_and_each_step_waits_for_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    busy: set[str] = set()
    compiled: set[str] = set()
    done: list[tuple[str, str]] = []
    lock = threading.Lock()

    def use(gpu: str, seconds: float) -> None:
        with lock:
            assert gpu not in busy
            busy.add(gpu)
        time.sleep(seconds)
        with lock:
            busy.remove(gpu)

    def compile_it(name: str, lane: Lane) -> None:
        use(lane.gpu, 0.2 if name == "slow" else 0.01)
        compiled.add(name)

    def search(name: str, lane: Lane) -> None:
        assert name in compiled
        use(lane.gpu, 0.01)
        done.append((name, lane.gpu))

    tuning_goal.in_turn(["slow", "a", "b", "c"], compile_it, search)
    assert sorted(name for name, _ in done) == ["a", "b", "c", "slow"]
    assert {gpu for _, gpu in done} == {"0", "1"}


def test_a_step_that_fails_ends_the_run_with_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")

    def fail(name: str, _lane: Lane) -> None:
        raise OSError(name)

    with pytest.raises(OSError, match="a"):
        tuning_goal.in_turn(["a", "b"], fail, fail)


def test_threads_of_one_physical_core_are_neighbors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _pid: {0, 1, 2, 3, 8}, raising=False)
    for core, siblings in enumerate(("0,2", "1,3", "0,2", "1,3")):
        folder = tmp_path / f"cpu{core}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(siblings + "\n")
    assert allowed_cores(tmp_path) == [0, 2, 1, 3, 8]
