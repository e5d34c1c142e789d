"""Makes the row of a task from what its worker answered.

Invariant: a row holds what the Report has and nothing else; a part that is missing there is None here.
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace

from fuselight.remote.run_client import RemoteAnswer
from fuselight.shared.codec import DecodeError, decode, encode
from fuselight.shared.report import (
    Culprit,
    Failure,
    Measured,
    MeasuredConfiguration,
    Outcome,
    Report,
    Versions,
)
from fuselight.shared.report.tuned import Tuned, TunedResult, TuneOutcome
from fuselight.shared.version import version
from fuselight_server.base.formatting import format_place
from fuselight_server.explain.benchmarks import words
from fuselight_server.explain.benchmarks.timing_stats import clock_of, range_of, speedup, timing_of
from fuselight_server.explain.findings.common.counts import break_groups, counts
from fuselight_server.explain.kernels.summary import one_call
from fuselight_server.sweep.rows import RowFailure, RowStatus, SweepJob, SweepRow, TimedConfiguration
from fuselight_server.sweep.tasks import SweepTask

_UNKNOWN = "unknown"
_MAX_PROBLEMS = 3


def row_of_answer(task: SweepTask, answer: RemoteAnswer, attempts: int) -> SweepRow:
    """The row of a task, whatever came of it."""
    try:
        row = _row(task, answer)
        decode(SweepRow, encode(row))  # what the results of the sweep can be read with
    except DecodeError as error:
        failure = RowFailure(
            Culprit.FUSELIGHT.value,
            "damaged_answer",
            f"the worker's answer cannot be read: {error}",
            "install the same version of Fuselight on all machines",
        )
        row = task.unfinished(RowStatus.FAILED, failure)
    return replace(
        _with_origin(row, answer),
        attempts=attempts, seconds=round(answer.seconds, 3), started=_now(answer.seconds),
    )  # fmt: skip


def _row(task: SweepTask, answer: RemoteAnswer) -> SweepRow:
    if answer.lost:
        failure = RowFailure(
            Culprit.ENVIRONMENT.value,
            "lost",
            answer.lost,
            "see whether the machine ran out of memory, then run the sweep with --resume --retry-failed",
        )
        return task.unfinished(RowStatus.LOST, failure)
    if answer.report is None:
        return task.unfinished(RowStatus.FAILED, failure_of(decode(Failure, answer.failure)))
    report = decode(Report, answer.report)
    failures = [_with_packages(failure_of(failure), task) for failure in report.failures]
    row = task.unfinished(RowStatus.FAILED, failures[0]) if failures else _done(task)
    problems = tuple(f"{problem.what}: {problem.why}" for problem in report.problems[:_MAX_PROBLEMS])
    row = replace(row, notes=(*row.notes, *problems))
    parts = {
        SweepJob.CHECK: _with_capture,
        SweepJob.KERNELS: _with_kernels,
        SweepJob.BENCH: _with_times,
        SweepJob.TUNE: _with_search,
    }
    return parts[task.job](row, report)


def _done(task: SweepTask) -> SweepRow:
    return replace(task.unfinished(RowStatus.DONE, RowFailure("", "", "")), failure=None)


def failure_of(failure: Failure) -> RowFailure:
    """The failure without its stack and traceback."""
    last = failure.stack[-1] if failure.stack else None
    return RowFailure(
        failure.culprit.value,
        failure.kind,
        failure.message,
        failure.next_step,
        format_place(last.path, last.line) if last is not None else "",
        failure.exception or "",
    )


def _with_packages(failure: RowFailure, task: SweepTask) -> RowFailure:
    """The failure of a missing package with the command that installs what the suite says it needs."""
    if failure.exception != "ModuleNotFoundError" or not task.row.packages:
        return failure
    return replace(failure, next_step=f"pip install {' '.join(task.row.packages)}")


def _with_origin(row: SweepRow, answer: RemoteAnswer) -> SweepRow:
    """The row with the machine and the versions that it comes from."""
    try:
        versions = decode(Versions, answer.versions)
    except DecodeError:  # the worker did not start
        return replace(row, node=answer.node)
    return replace(
        row,
        node=answer.node,
        python=versions.python,
        torch=versions.torch or "",
        triton=versions.triton or "",
        fuselight=version(),  # its code travels to the node
    )


def _with_capture(row: SweepRow, report: Report) -> SweepRow:
    totals = counts(report)
    if not report.frames and report.failures:
        return row  # it failed before anything was traced
    operators = sum(
        record.graph.operators
        for record in report.compiles
        if record.graph is not None and record.outcome is Outcome.COMPILED
    )
    broken = Counter(_break_cause(group[0].types, group[0].ids) for group in break_groups(report.breaks))
    again = Counter(
        recompilation.entries[0].failures[0].cause.value
        if recompilation.entries and recompilation.entries[0].failures
        else _UNKNOWN
        for recompilation in report.recompiles
        if recompilation.compile_id is not None
    )
    return replace(
        row,
        graphs=totals.graphs,
        breaks=totals.breaks,
        recompilations=totals.recompilations,
        operators=operators,
        break_causes=dict(broken.most_common()),
        recompilation_causes=dict(again.most_common()),
    )


def _break_cause(types: tuple[str, ...], ids: tuple[str | None, ...]) -> str:
    """`Data-dependent branching (GB0170)`."""
    name = types[0] if types else _UNKNOWN
    return f"{name} ({ids[0]})" if ids and ids[0] else name


def _with_kernels(row: SweepRow, report: Report) -> SweepRow:
    kernels = [kernel for graph in one_call(report).generated for kernel in graph.kernels]
    if not report.generated and report.failures:
        return row
    lost = next((graph.failure for graph in report.generated if graph.failure is not None), None)
    if lost is not None and row.failure is None:
        failure = RowFailure(
            Culprit.COMPILER.value,
            "backend",
            str(getattr(lost, "message", lost)),
            "see `fuselight kernels` for this target",
        )
        row = replace(row, status=RowStatus.FAILED, failure=failure)
    estimates = [kernel.estimate_us for kernel in kernels if kernel.estimate_us is not None]
    return replace(
        row,
        kernels=len(kernels),
        kernel_us=sum(estimates) if estimates else None,
        kernel_device=report.target_device.key if report.target_device is not None else report.device,
    )


def _with_times(row: SweepRow, report: Report) -> SweepRow:
    return _timed_row(row, report.measured) if report.measured is not None else row


def _with_search(row: SweepRow, report: Report) -> SweepRow:
    tuned = report.tuned
    if tuned is None:
        return row
    tried = tuple(
        candidate.configuration
        for candidate in tuned.candidates
        if candidate.outcome not in {TuneOutcome.SKIPPED, TuneOutcome.UNFINISHED}
    )
    row = _timed_row(row, Measured(tuned.work, tuned.machine, tried))
    confirmed = tuned.confirmation
    return replace(
        row,
        notes=(*row.notes, *tuned.notes),
        winner=tuned.winner,
        gain=confirmed.gain if confirmed is not None else None,
        gain_low=confirmed.low if confirmed is not None else None,
    )


def tuned_result_of(answer: RemoteAnswer) -> TunedResult | None:
    """What a program replays, if the answer is that of a search which came to a decision."""
    if answer.report is None or not isinstance(tuned := answer.report.get("tuned"), dict):
        return None
    try:
        return decode(Tuned, tuned).result
    except DecodeError:  # the row says so
        return None


def _timed_row(row: SweepRow, measured: Measured) -> SweepRow:
    timed = tuple(_timed(measured, configuration) for configuration in measured.configurations)
    row = replace(
        row,
        clock=clock_of(measured).value,
        work=words.WORK[measured.work],
        machine=words.device(measured.machine) if words.has_device(measured.machine) else "",
        notes=(*row.notes, *measured.machine.notes),
        configurations=timed,
    )
    if row.failure is None and not any(
        configuration.speedup is not None and configuration.name != "eager" for configuration in timed
    ):
        first = next(
            (configuration.failure for configuration in timed if configuration.failure is not None), None
        )
        missing = RowFailure(Culprit.FUSELIGHT.value, _UNKNOWN, "no configuration has a time")
        return replace(row, status=RowStatus.FAILED, failure=first or missing)
    return row


def _timed(measured: Measured, configuration: MeasuredConfiguration) -> TimedConfiguration:
    timing = timing_of(configuration, clock_of(measured))
    bounds = range_of(timing) if timing is not None else None
    return TimedConfiguration(
        name=configuration.name,
        us=bounds.us if bounds is not None else None,
        low_us=bounds.low if bounds is not None else None,
        high_us=bounds.high if bounds is not None else None,
        is_unsteady=timing is not None and timing.unsteady,
        speedup=speedup(measured, configuration),
        first_us=configuration.first_us,
        peak_bytes=configuration.peak_bytes,
        is_accurate=configuration.accuracy.passed if configuration.accuracy is not None else None,
        graph_breaks=configuration.graph_breaks,
        failure=failure_of(configuration.failure) if configuration.failure is not None else None,
    )


def _now(ago: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - ago))
