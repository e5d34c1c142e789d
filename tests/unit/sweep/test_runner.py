"""Running a plan: one retry for a lost task, versions that differ, and the estimate of the rest."""

from __future__ import annotations

import platform
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuselight.remote.run_client import RemoteAnswer
from fuselight.shared.codec import encode
from fuselight.shared.report import Clock, Machine, MeasuredConfiguration, Timing, Work
from fuselight.shared.report.tuned import (
    Confirmation,
    Numerics,
    TuneCandidate,
    Tuned,
    TunedResult,
    TuneOutcome,
)
from fuselight_server.base.settings import Interpreter
from fuselight_server.cli.formats.sweep import result_in_words
from fuselight_server.sweep.engines import LocalEngine
from fuselight_server.sweep.rows import RowStatus, SweepJob
from fuselight_server.sweep.runner import SweepProgress, run_tasks
from fuselight_server.sweep.suites import built_in_suite, read_suite
from fuselight_server.sweep.tasks import SweepOptions, SweepTask, plan_sweep
from tests.support.sweeps import NET, VERSIONS, ScriptedEngine, answer_of, row

LOST = RemoteAnswer(lost="the worker was killed by SIGKILL", node="far")
KILLED = {"failures": [{"culprit": "user", "kind": "signal", "message": "the process died of SIGKILL"}]}


@pytest.fixture
def tasks(tmp_path: Path) -> tuple[SweepTask, ...]:
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.py").write_text(NET, encoding="utf-8")
    jobs = (SweepJob.BENCH, SweepJob.CHECK)
    return plan_sweep(read_suite(str(tmp_path)), SweepOptions(jobs=jobs), has_gpu=False).tasks


def test_each_task_ends_as_one_row(tasks: tuple[SweepTask, ...]) -> None:
    engine = ScriptedEngine()
    rows = list(run_tasks(tasks, engine))
    assert sorted(sweep_row.id for sweep_row in rows) == sorted(task.id for task in tasks)
    assert engine.prepared == len(tasks)
    assert [sweep_row.job for sweep_row in rows] == [SweepJob.CHECK] * 3 + [SweepJob.BENCH] * 3
    assert {sweep_row.torch for sweep_row in rows} == {"2.13.0"}


@pytest.mark.parametrize("first", [LOST, KILLED])
def test_a_task_whose_worker_died_is_tried_once_more(
    tasks: tuple[SweepTask, ...], first: RemoteAnswer | dict[str, Any]
) -> None:
    def answer(task: SweepTask, attempt: int) -> RemoteAnswer:
        if not task.id.startswith("b.py") or attempt > 1:
            return answer_of(task)
        return first if isinstance(first, RemoteAnswer) else answer_of(task, **first)

    engine = ScriptedEngine(answer)
    rows = {task.id: task for task in run_tasks(tasks[:3], engine)}
    assert engine.ran.count("b.py:Net check") == 2
    assert len(engine.ran) == 4
    again = rows["b.py:Net check"]
    assert (again.status, again.attempts) == (RowStatus.DONE, 2)
    assert "first attempt was lost" in again.notes[0]


def test_a_task_that_is_lost_twice_is_a_row_that_says_so(tasks: tuple[SweepTask, ...]) -> None:
    engine = ScriptedEngine(lambda _task, _attempt: LOST)
    (only,) = run_tasks(tasks[:1], engine)
    assert (only.status, only.attempts, only.node) == (RowStatus.LOST, 2, "far")
    assert only.failure is not None
    assert only.failure.message == "the worker was killed by SIGKILL"
    assert "--resume" in only.failure.next_step


def test_rows_name_a_node_with_another_torch_and_one_without(tasks: tuple[SweepTask, ...]) -> None:
    other = {**VERSIONS, "torch": "2.11.0"}
    no_torch = {
        "culprit": "environment",
        "kind": "no_torch",
        "message": "there is no torch",
        "next_step": "x",
    }

    def answer(task: SweepTask, _attempt: int) -> RemoteAnswer:
        if task.id.startswith("b.py"):
            return RemoteAnswer(answer_of(task).report, node="old", versions=other)
        if task.id.startswith("c.py"):
            return RemoteAnswer(failure=no_torch, node="bare", versions={**VERSIONS, "torch": None})
        return answer_of(task)

    rows = list(run_tasks(tasks[:3], ScriptedEngine(answer)))
    assert rows[0].notes == ()
    assert rows[1].notes == ("torch 2.11.0 on old; here has torch 2.13.0",)
    assert rows[2].failure is not None
    assert rows[2].failure.message == "there is no torch (on bare)"


def test_an_answer_that_cannot_be_read_is_a_row(tasks: tuple[SweepTask, ...]) -> None:
    (only,) = run_tasks(tasks[:1], ScriptedEngine(lambda *_: RemoteAnswer({"tier": 3}, node="n")))
    assert only.status is RowStatus.FAILED
    assert only.failure is not None
    assert only.failure.kind == "damaged_answer"


def test_the_rest_is_estimated_from_tasks_of_the_same_job(tasks: tuple[SweepTask, ...]) -> None:
    engine, progress = ScriptedEngine(), SweepProgress(6)
    assert progress.rest_seconds(tasks, engine) is None
    progress.count(row(seconds=4.0))
    progress.count(row(job=SweepJob.BENCH, seconds=60.0, status=RowStatus.FAILED))
    assert (progress.done, progress.not_done) == (2, 1)
    assert progress.rest_seconds(tasks[:3], engine) == 3 * 4.0 / 2
    assert progress.rest_seconds(tasks[3:], engine) == 3 * 60.0 / 2


def test_a_missing_package_names_what_the_suite_says_it_needs(tmp_path: Path) -> None:
    suite = built_in_suite("pytorch-163", tmp_path, size="tiny", training=False)
    plan = plan_sweep(suite, SweepOptions(), has_gpu=False)
    task = next(sweep_task for sweep_task in plan.tasks if sweep_task.row.group == "timm")
    missing = {
        "culprit": "user",
        "kind": "import",
        "message": "ModuleNotFoundError: No module named 'timm'",
        "exception": "ModuleNotFoundError",
    }
    (only,) = run_tasks(
        [task], ScriptedEngine(lambda sweep_task, _: answer_of(sweep_task, failures=[missing]))
    )
    assert only.failure is not None
    assert only.failure.next_step.startswith("pip install timm")


def test_a_search_gives_its_winner_and_what_a_program_replays(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET, encoding="utf-8")
    plan = plan_sweep(read_suite(str(tmp_path)), SweepOptions(jobs=(SweepJob.TUNE,)), has_gpu=True)
    machine = Machine("NVIDIA H100")
    rows = (
        TuneCandidate(configuration("eager", 200.0), TuneOutcome.BASELINE),
        TuneCandidate(configuration("default", 100.0), TuneOutcome.BASELINE),
        TuneCandidate(configuration("default+freezing=True", 50.0), TuneOutcome.WINNER),
        TuneCandidate(MeasuredConfiguration("max-autotune"), TuneOutcome.SKIPPED),
    )
    result = TunedResult("net.py", "Net", Work.INFERENCE, Numerics.EXACT, "NVIDIA H100")
    tuned = Tuned(
        Work.INFERENCE,
        machine,
        Numerics.EXACT,
        120.0,
        candidates=rows,
        winner="default+freezing=True",
        confirmation=Confirmation(50.0, 100.0, 2.0, 1.9, 2.1, 10),
        result=result,
        notes=("a note",),
    )
    kept: list[TunedResult] = []
    engine = ScriptedEngine(lambda task, _: answer_of(task, tier="tuned", tuned=encode(tuned)))
    (only,) = run_tasks(plan.tasks, engine, on_result=kept.append)
    assert kept == [result]
    assert (only.id, only.winner, only.gain, only.gain_low) == (
        "net.py:Net tune cuda",
        "default+freezing=True",
        2.0,
        1.9,
    )
    assert [
        (timed_configuration.name, timed_configuration.speedup) for timed_configuration in only.configurations
    ] == [
        ("eager", 1.0),
        ("default", 2.0),
        ("default+freezing=True", 4.0),
    ]
    assert only.best is not None
    assert only.best.us == 50.0
    assert only.notes == ("a note",)
    words = result_in_words(only)
    assert words.endswith(
        "default+freezing=True 50 µs ± 1% (4.0×); default+freezing=True wins, 2.0× over default"
    )
    assert result_in_words(replace(only, winner="default", gain=1.0)).endswith(
        "nothing was shown to be faster than default"
    )


def configuration(name: str, us: float) -> MeasuredConfiguration:
    return MeasuredConfiguration(name, device=Timing(Clock.DEVICE, us, us * 0.99, us * 1.01, 10))


def test_a_row_of_another_torch_than_the_earlier_rows_has_a_note(tasks: tuple[SweepTask, ...]) -> None:
    earlier = [row(torch="2.11.0", node="old")]
    rows = list(run_tasks(tasks[:1], ScriptedEngine(), earlier=earlier))
    assert rows[0].notes == ("torch 2.13.0 on here; old has torch 2.11.0",)


def test_the_versions_of_an_interpreter_are_read_without_its_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = LocalEngine(Interpreter(sys.executable, why="the test"), jobs=1, gpus=(), folder=str(tmp_path))
    (tmp_path / "lib" / "torch").mkdir(parents=True)
    (tmp_path / "lib" / "torch" / "__init__.py").write_text("raise SystemExit(1)\n", encoding="utf-8")
    (tmp_path / "lib" / "torch" / "version.py").write_text("__version__ = '9.8.7+own'\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "lib"))
    versions = engine.versions()
    assert versions is not None
    assert (versions.python, versions.torch[0]) == (platform.python_version(), "9.8.7+own")
    missing = Interpreter(str(tmp_path / "python"), why="the test")
    assert LocalEngine(missing, jobs=1, gpus=(), folder=str(tmp_path)).versions() is None
