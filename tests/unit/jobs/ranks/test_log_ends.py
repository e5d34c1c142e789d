"""Logs that end inside a compile: a finding that says in which phase, since when, and what is not known."""

from __future__ import annotations

import asyncio
import io
import shutil
from pathlib import Path
from typing import Any

import pytest

from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.finding import Finding, Severity
from fuselight_server.base.terminal import Terminal
from fuselight_server.cli.formats.jobs import FindingStream, print_jobs
from fuselight_server.commands.open import OpenRequest, open_jobs
from fuselight_server.commands.opened_job import OpenedJob
from tests.support.job_logs import project, written
from tests.support.trace_logs import JOBS, compiled, event, record

SOURCE = """\
import torch


@torch.compile(
    dynamic=False
)
def step(x):
    return x.sin()


class Net:
    def forward(self, x):
        return x.cos()
"""
STEP = ("step", 4)
FORWARD = ("forward", 12)


def begun(
    phases: dict[str, float],
    *,
    at: str = "0/0/0",
    function: tuple[str, int] = STEP,
    process: int = 7,
    rank: int | None = None,
    last: float | None = None,
) -> bytes:
    """The start of a compile, and phases with their start in seconds, none of which ends."""
    name, line = function
    more: dict[str, Any] = {"at": at, "process": process, **({} if rank is None else {"rank": rank})}
    parts = [event(phase, "B", second, second=int(second) % 3600, **more) for phase, second in phases.items()]
    stack = [{"line": line, "name": name, "filename": "/job/net.py"}]
    start = int(min(phases.values(), default=0)) % 3600
    parts.insert(1, record("dynamo_start", {"stack": stack}, second=start, **more))
    if last is not None:
        parts.append(record("describe_storage", {"id": 1}, second=int(last) % 3600, **more))
    return b"".join(parts)


def after(at: str = "1/0/0", *, start: float, **more: Any) -> bytes:
    return compiled(at, start=start, path="/job/net.py", **{"function": FORWARD, **more})


def opened(tmp_path: Path, logs: dict[str, bytes], **more: Any) -> OpenedJob:
    source = project(tmp_path / "source", {"net.py": SOURCE})
    request = OpenRequest((written(tmp_path / "logs", logs),), (source,), **more)
    (job,) = asyncio.run(open_jobs(request, lambda _text: None, CancelToken()))
    return job


def ends(job: OpenedJob) -> list[Finding]:
    return [finding for finding in job.findings if finding.code == "FL914"]


def test_a_process_that_ends_inside_a_compile_is_a_warning_on_the_def_line(tmp_path: Path) -> None:
    phases = {"dynamo": 1000.0, "backend_compile": 1002.0, "fx_codegen_and_compile": 1005.0}
    job = opened(tmp_path, {"a": begun(phases, last=1047)})
    (finding,) = ends(job)
    assert finding.title == "the log ends inside the compile of `step`"
    assert (Path(finding.span.path).name, finding.span.line) == ("net.py", 7), "not the decorator"
    assert (
        "in code generation (Inductor) (phase `fx_codegen_and_compile`) for at least 42 s" in finding.message
    )
    assert "47 s after the compile began" in finding.message
    for possible in ("killed", "memory runs out", "crashed", "hangs", "still compiles", "copied"):
        assert possible in finding.message
    assert job.exit_code == 1


@pytest.mark.parametrize(
    ("phase", "words"),
    [
        ("bytecode_tracing", "tracing (Dynamo)"),
        ("aot_trace_joint_graph", "AOTAutograd"),
        ("GraphLowering.run", "code generation (Inductor)"),
        ("async_compile.wait", "compiling kernels"),
        ("benchmark_gpu", "autotuning"),
    ],
)
def test_the_phase_is_named_with_the_stage(tmp_path: Path, phase: str, words: str) -> None:
    (finding,) = ends(opened(tmp_path, {"a": begun({"dynamo": 1000.0, phase: 1003.0}, last=1004)}))
    assert f"in {words} (phase `{phase}`) for at least 1 s" in finding.message
    is_of_compilers = words not in {"tracing (Dynamo)", "AOTAutograd"}
    assert ("TORCHINDUCTOR_COMPILE_THREADS" in finding.message) is is_of_compilers


def test_a_backward_that_did_not_end_is_found_although_its_forward_did(tmp_path: Path) -> None:
    phases = {"entire_backward_compile": 1010.0, "inductor_compile": 1011.0}
    log = after("0/0/0", start=1000, function=STEP) + after("1/0/0", start=1004)
    log += b"".join(event(name, "B", time, at="0/0", second=int(time)) for name, time in phases.items())
    (finding,) = ends(opened(tmp_path, {"a": log}))
    assert finding.title == "the log ends inside the compile of the backward of `step`"


def test_the_other_ranks_that_go_on_are_named(tmp_path: Path) -> None:
    logs = {
        f"rank_{rank}_x": after("0/0/0", start=1000, function=STEP, process=20 + rank, rank=rank)
        + after(start=1060 + rank, process=20 + rank, rank=rank)
        for rank in (0, 2)
    }
    logs["rank_1_x"] = begun({"dynamo": 1000.0, "inductor_compile": 1001.0}, process=21, rank=1, last=1020)
    job = opened(tmp_path, logs)
    (finding,) = ends(job)
    assert finding.title == "the log of rank 1 ends inside the compile of `step`"
    assert "The logs of ranks 0 and 2 go on for up to 43 s after it." in finding.message
    assert "the other ranks cannot pass the next collective" in finding.message
    assert finding.severity is Severity.WARNING
    assert job.ranks is not None
    assert [len(row.unfinished) for row in job.ranks.rows] == [0, 1, 0]


def test_two_ranks_in_one_compile_are_one_finding_with_both_phases(tmp_path: Path) -> None:
    logs = {
        "rank_0_x": begun({"dynamo": 1000.0, "inductor_compile": 1002.0}, process=20, rank=0, last=1009),
        "rank_1_x": begun({"dynamo": 1000.0, "aot_collect_metadata": 1003.0}, process=21, rank=1, last=1005),
    }
    (finding,) = ends(opened(tmp_path, logs))
    assert finding.title == "the logs of ranks 0 and 1 end inside the compile of `step`"
    assert "Rank 1: it was in AOTAutograd" in finding.message
    assert "Rank 0: it was in code generation (Inductor)" in finding.message
    assert "The log of rank 1 ended first, by 4 s" in finding.message


def test_of_two_compiles_only_the_first_to_end_is_a_warning(tmp_path: Path) -> None:
    logs = {
        "rank_0_x": begun({"dynamo": 1000.0}, process=20, rank=0, last=1003),
        "rank_1_x": begun({"dynamo": 1000.0}, process=21, rank=1, function=FORWARD, last=1008),
    }
    first, second = sorted(ends(opened(tmp_path, logs)), key=lambda finding: finding.span.line)
    assert (first.severity, second.severity) == (Severity.WARNING, Severity.INFORMATION)
    assert "The log of rank 0 ends 5 s earlier, inside a compile, too" in second.message


def test_processes_without_a_rank_are_named_by_their_number(tmp_path: Path) -> None:
    logs = {"a": begun({"dynamo": 1000.0}, process=20, last=1003), "b": after(start=1000, process=21)}
    (finding,) = ends(opened(tmp_path, logs))
    assert finding.title == "the log of process 20 ends inside the compile of `step`"
    assert "collective" not in finding.message


def test_a_log_cut_inside_a_record_is_found_too(tmp_path: Path) -> None:
    whole = begun({"dynamo": 1000.0, "inductor_compile": 1002.0}, last=1009)
    (finding,) = ends(opened(tmp_path, {"a": whole + whole[:70]}))
    assert "inside the compile of `step`" in finding.title


def test_a_compile_after_it_shows_that_it_ended(tmp_path: Path) -> None:
    assert not ends(opened(tmp_path, {"a": begun({"dynamo": 1000.0}) + after(start=1005)}))


def test_a_lost_end_of_a_phase_is_no_open_compile(tmp_path: Path) -> None:
    whole = compiled(path="/job/net.py", function=STEP)
    lost = event("dynamo", "E", 1001.0, at="0/0/0", second=1000)
    assert lost in whole
    assert not ends(opened(tmp_path, {"a": whole.replace(lost, b"")}))


def test_a_followed_job_has_none_until_it_is_stopped_and_then_no_warning(tmp_path: Path) -> None:
    source = project(tmp_path / "source", {"net.py": SOURCE})
    log = compiled(path="/job/net.py", function=FORWARD) + begun({"dynamo": 1005.0}, at="1/0/0", last=1009)
    request = OpenRequest((written(tmp_path / "logs", {"a": log}),), (source,), is_followed=True)
    token = CancelToken()
    partials: list[OpenedJob] = []

    def stop(jobs: tuple[OpenedJob, ...]) -> None:
        partials.extend(jobs)
        token.cancel()

    (job,) = asyncio.run(open_jobs(request, lambda _text: None, token, on_partial=stop))
    assert partials
    assert not [finding for partial in partials for finding in ends(partial)]
    (finding,) = ends(job)
    assert finding.severity is Severity.INFORMATION
    assert finding.title == "the process was compiling `step` when the following ended"
    assert job.exit_code == 0


def test_a_run_that_has_ended_here_is_not_said_to_go_on(tmp_path: Path) -> None:
    (finding,) = ends(opened(tmp_path, {"a": begun({"dynamo": 1000.0})}, ran_here=900.0))
    assert "still" not in finding.message
    assert "does not say how the process ended" in finding.message


@pytest.mark.slow
@pytest.mark.parametrize("folder", JOBS, ids=lambda folder: f"{folder.parent.name}-{folder.name}")
def test_recorded_jobs_have_one_only_if_they_were_killed(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "logs")
    source = project(tmp_path / "source", {})
    request = OpenRequest((tmp_path / "logs",), (source,))
    jobs = asyncio.run(open_jobs(request, lambda _text: None, CancelToken()))
    titles = [finding.title for job in jobs for finding in ends(job) if "ends inside" in finding.title]
    assert bool(titles) is (folder.name == "unfinished"), titles


def test_the_summary_of_a_process_says_that_its_log_ends_inside_a_compile(tmp_path: Path) -> None:
    logs = {
        "rank_0_x": after(start=1000, process=20, rank=0),
        "rank_1_x": after(start=1000, process=21, rank=1)
        + begun({"dynamo": 1004.0}, at="2/0/0", process=21, rank=1, last=1009),
    }
    job = opened(tmp_path, logs)
    out = io.StringIO()
    print_jobs([job], FindingStream(Terminal(out)), Terminal(out))
    lines = [line for line in out.getvalue().splitlines() if "__main__" in line and line.startswith("rank")]
    ends_in = ", and a compile of step that had not ended when the log ended"
    assert [line.endswith(ends_in) for line in lines] == [False, True]


def test_compile_time_has_the_backward_in_every_total(tmp_path: Path) -> None:
    forward = {"co_name": "step", "co_filename": "/job/net.py", "co_firstlineno": 4, "duration_us": 2_000_000}
    log = compiled(path="/job/net.py", function=STEP)
    log += record("compilation_metrics", forward, at="1/0/0", second=1002)
    log += record("bwd_compilation_metrics", {"duration_us": 5_000_000}, at="1/0/0", second=1003)
    logs = {f"rank_{rank}_x": log for rank in (0, 1)}
    job = opened(tmp_path, logs)
    assert job.ranks is not None
    assert [row.seconds for row in job.ranks.rows] == [7.0, 7.0]
    assert [process.report.phases["compile"] for process in job.processes] == [7.0, 7.0]
