"""What is said of the processes of a program: which failed, how, and where its log ends."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from fuselight.shared.started_processes import ProcessEnd
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.commands.opened_job import OpenedJob
from fuselight_server.commands.run import open_run, process_remarks
from tests.support.job_logs import SOURCE, log_of, project, written
from tests.support.trace_logs import record


def opened(logs: tuple[Path, ...], source: Path, started: float) -> OpenedJob:
    (job,) = asyncio.run(open_run(logs, (source,), started, lambda _text: None, CancelToken()))
    return job


def remarks(jobs: tuple[OpenedJob, ...], *ends: ProcessEnd) -> list[tuple[str, str, bool]]:
    return [(remark.label, remark.text, remark.failed) for remark in process_remarks(jobs, ends)]


@pytest.fixture
def job(tmp_path: Path) -> OpenedJob:
    """Two ranks with findings; the log of rank 1 ends within a compile."""
    source = project(tmp_path / "source", {"net.py": SOURCE})
    stack = [{"line": 5, "name": "forward", "filename": str(source / "net.py")}]
    started = record("dynamo_start", {"stack": stack}, at="1/0/0", process=8, rank=1)
    logs = {f"rank_{rank}_x": log_of(str(source / "net.py"), process=7 + rank, rank=rank) for rank in (0, 1)}
    logs["rank_1_x"] += started
    folder = written(tmp_path / "train", logs)
    for path in source.iterdir():
        os.utime(path, (1_000, 1_000))
    return opened(tuple(sorted(folder.iterdir())), source, 2_000.0)


def test_the_lines_of_a_run_are_those_that_ran(job: OpenedJob, tmp_path: Path) -> None:
    assert job.name == "train"
    recompiled = next(finding for finding in job.findings if finding.code == "FL201")
    assert recompiled.span.path == str(tmp_path / "source" / "net.py")
    assert "unknown" not in recompiled.message, "the file has not been written since the start"
    logs = tuple(sorted((tmp_path / "train").iterdir()))
    edited = opened(logs, tmp_path / "source", 500.0)
    assert any("unknown" in finding.message for finding in edited.findings)
    other = project(tmp_path / "other", {"net.py": SOURCE})
    elsewhere = opened(logs, other, 2_000.0)
    assert {finding.span.path for finding in elsewhere.findings} == {str(tmp_path / "source" / "net.py")}


def test_a_process_that_failed_is_named_with_the_compile_that_its_log_ends_in(job: OpenedJob) -> None:
    line = f"{os.path.relpath(job.findings[0].span.path)}:5"
    if line.startswith(".."):
        line = f"{job.findings[0].span.path}:5"
    ends_in = f"its log ends while `Net.forward` ({line}) was being compiled"
    assert remarks((job,)) == [("rank 1", ends_in, False)]
    killed = ProcessEnd(rank=1, pid=8, code=-9)
    how = "was ended by SIGKILL, which is what happens when memory runs out"
    assert remarks((job,), killed) == [("rank 1", f"{how}; {ends_in}", True)]
    exited, stopped = ProcessEnd(rank=0, pid=7, code=3), ProcessEnd(rank=1, pid=8, code=-15)
    assert remarks((job,), stopped, exited) == [
        ("rank 0", "ended with exit code 3", True),
        ("rank 1", ends_in, False),
    ], "the launcher has ended the others"
    assert remarks((job,), stopped)[0][:2] == ("rank 1", f"was ended by SIGTERM; {ends_in}")


def test_a_compile_that_ctrl_c_ended_is_told_from_one_that_was_over_before(tmp_path: Path) -> None:
    source = project(tmp_path / "source", {"net.py": SOURCE})
    path = str(source / "net.py")
    start = record("dynamo_start", {"stack": [{"line": 5, "name": "forward", "filename": path}]}, at="0/0/0")
    metrics = {"co_name": "forward", "co_filename": path, "co_firstlineno": 5, "guard_count": None}
    log = start + record("compilation_metrics", metrics, at="0/0/0")
    logs = written(
        tmp_path / "train", {"a": log, "b": log.replace(b'"guard_count": null', b'"guard_count": 4')}
    )
    paths = tuple(sorted(logs.iterdir()))
    for name in paths:
        os.utime(name, (5_000, 5_000))
    job = opened(paths, source, 2_000.0)

    def texts(interrupted_at: float | None) -> list[str]:
        return [remark.text for remark in process_remarks((job,), (), interrupted_at)]

    (text,) = texts(4_999.0)
    assert text.startswith("was compiling `Net.forward` (")
    assert text.endswith("net.py:5) when it was interrupted")
    assert texts(5_001.0) == texts(None) == [], "nothing was written after Ctrl-C: it compiled nothing then"


def test_processes_without_a_log_are_named_by_what_the_launcher_knows() -> None:
    spawned = ProcessEnd(number=1, pid=40, code=1, error="KeyError: 'x'")
    assert remarks((), spawned, ProcessEnd(rank=3, code=-300), ProcessEnd()) == [
        ("process 40 (number 1 of those that were spawned)", "failed with `KeyError: 'x'`", True),
        ("rank 3", "was ended by signal 300", True),
        ("a process", "failed", True),
    ]
