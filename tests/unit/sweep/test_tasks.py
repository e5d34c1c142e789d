"""Tasks of a suite: their requests, their devices, and keys that change with what they depend on alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.measurement_plans import MeasurePlan
from fuselight.shared.protocol import GenerateRequest, MeasureRequest, TuneRequest
from fuselight_server.sweep.rows import RowStatus, SweepJob
from fuselight_server.sweep.suites import read_suite
from fuselight_server.sweep.tasks import SweepOptions, SweepPlan, UnknownDeviceError, plan_sweep
from tests.support.sweeps import NET

ALL = tuple(SweepJob)


def planned(folder: Path, *, has_gpu: bool = False, **options: Any) -> SweepPlan:
    return plan_sweep(read_suite(str(folder)), SweepOptions(**options), has_gpu=has_gpu)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    (tmp_path / "net.py").write_text(NET, encoding="utf-8")
    return tmp_path


def test_a_task_for_each_job_those_that_are_timed_last(models: Path) -> None:
    tasks = planned(models, jobs=(SweepJob.BENCH, SweepJob.CHECK)).tasks
    assert [task.id for task in tasks] == ["net.py:Net check", "net.py:Net bench cpu"]
    assert [task.job.is_timed for task in tasks] == [False, True]


def test_requests_of_each_job(models: Path) -> None:
    tasks = {task.job: task for task in planned(models, jobs=ALL, has_gpu=True, time_limit=30.0).tasks}
    kernels, bench, tune = (tasks[job].request for job in (SweepJob.KERNELS, SweepJob.BENCH, SweepJob.TUNE))
    assert isinstance(kernels, GenerateRequest)
    assert kernels.device is None
    assert isinstance(bench, MeasureRequest)
    assert (bench.plan.device, bench.plan.configurations) == ("cuda", ("eager", "default"))
    assert not bench.plan.profile
    assert isinstance(tune, TuneRequest)
    assert tune.limits.seconds > tune.plan.budget_seconds
    assert [tasks[job].needs_gpu for job in ALL] == [False, False, True, True]
    assert tasks[SweepJob.CHECK].request.limits.seconds == 30.0


def test_devices_go_to_the_jobs_that_can_use_them(models: Path) -> None:
    plan = planned(models, jobs=ALL, devices=("h100", "cpu", "cuda"))
    assert [task.id.removeprefix("net.py:Net ") for task in plan.tasks] == [
        "check", "kernels h100-sxm", "kernels cpu", "bench cpu", "bench cuda", "tune cpu", "tune cuda",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "message"),
    [("hh100", "no device"), ("cuda:1", "CUDA_VISIBLE_DEVICES"), ("h100", "Add kernels to --do")],
)
def test_a_device_that_nothing_can_use(models: Path, name: str, message: str) -> None:
    with pytest.raises(UnknownDeviceError, match=message):
        planned(models, devices=(name,))


@pytest.mark.parametrize("has_gpu", [False, True])
def test_a_note_says_where_timed_jobs_run_instead(models: Path, *, has_gpu: bool) -> None:
    plan = planned(models, jobs=ALL, devices=("h100",), has_gpu=has_gpu)
    assert len(plan.notes) == 1
    assert f"kernels only: bench and tune run on {'cuda' if has_gpu else 'cpu'}" in plan.notes[0]
    assert not planned(models, jobs=ALL, devices=("h100", "cpu")).notes
    assert not planned(models, jobs=(SweepJob.KERNELS,), devices=("h100",)).notes


def test_keys_change_with_source_and_options_alone(models: Path) -> None:
    def key(**options: Any) -> str:
        (task,) = planned(models, **{"jobs": (SweepJob.BENCH,), **options}).tasks
        return task.key

    first = key()
    assert key() == first
    assert key(time_limit=7.0, memory_limit=100) == first, "a limit changes no result"
    assert key(compare=("max-autotune",)) != first
    assert key(plan=replace(MeasurePlan(), rounds=3)) != first
    assert key(devices=("cuda",)) != first
    (models / "net.py").write_text(NET.replace("relu", "sigmoid"), encoding="utf-8")
    assert key() != first


def test_equal_files_have_keys_of_their_own(models: Path) -> None:
    (models / "again.py").write_text(NET, encoding="utf-8")
    tasks = planned(models).tasks
    assert len({task.key for task in tasks}) == len({task.id for task in tasks}) == 2


def test_what_cannot_run_is_a_row_that_says_why(tmp_path: Path) -> None:
    (tmp_path / "net.py").write_text(NET, encoding="utf-8")
    (tmp_path / "broken.py").write_text("def (:\n", encoding="utf-8")
    (tmp_path / "empty.py").write_text("x = 1\n", encoding="utf-8")
    (tmp_path / "list.jsonl").write_text(
        '{"file": "net.py", "target": "Nett"}\n{"file": "broken.py"}\n{"file": "empty.py"}\n{"file": "none.py"}\n'
        '{"name": "gone", "group": "old", "absent": "no package ships it"}\n{"file": "net.py", "target": "Net", '
        '"name": "the net", "group": "new"}\n',
        encoding="utf-8",
    )
    plan = planned(tmp_path / "list.jsonl")
    assert [task.id for task in plan.tasks] == ["new/the net check"]
    answer = {row.id: (row.status, row.failure.message if row.failure else "") for row in plan.rows}
    assert answer == {
        "net.py check": (RowStatus.FAILED, "net.py has no class or function `Nett`"),
        "broken.py check": (RowStatus.FAILED, "the file does not parse"),
        "empty.py check": (RowStatus.FAILED, "empty.py has no target with inputs"),
        "none.py check": (RowStatus.FAILED, "none.py cannot be read: No such file or directory"),
        "old/gone check": (RowStatus.ABSENT, "no package ships it"),
    }
    assert len({row.key for row in plan.rows}) == len(plan.rows)
    assert all(row.failure and (row.failure.next_step or row.failure.kind == "absent") for row in plan.rows)
