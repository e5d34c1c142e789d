"""Eager against compiled, timed on this machine: each finished benchmark is kept, and compared with an earlier one.

Invariant: what is returned was measured in this run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

from fuselight.shared.measurement_plans import MeasurePlan
from fuselight.shared.report import Culprit, Failure, Report
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.command_error import CommandError
from fuselight_server.base.formatting import format_list, format_target
from fuselight_server.base.store import Store
from fuselight_server.commands.options import CommandOptions
from fuselight_server.commands.outcome import CheckOutcome, TargetBenchmark
from fuselight_server.commands.sources import shown_path
from fuselight_server.commands.targets import TargetRun, report_each
from fuselight_server.execution.runs.planning import MAIN
from fuselight_server.explain.benchmarks.exports import NotReadError, OtherTargetError, from_json, text_of
from fuselight_server.explain.benchmarks.history import (
    BenchmarkRun,
    History,
    NotKeptError,
    owners,
    relative,
    run_of,
)
from fuselight_server.explain.benchmarks.history_diff import with_earlier_readings
from fuselight_server.explain.benchmarks.planning import configurations, history_of, measure_request
from fuselight_server.explain.findings.failures import failure_report

LAST = "last"
"""Names the newest run before this one."""


async def measure(
    options: CommandOptions,
    show: Callable[[str], None],
    token: CancelToken,
    *,
    plan: MeasurePlan,
    compare: tuple[str, ...] = (),
    against: str | None = None,
) -> tuple[CheckOutcome, list[TargetBenchmark]]:
    """Measure every target, one after the other; a target whose run to compare with is missing is a failure.

    `compare`: the configurations; none named: eager, and the target as the source compiles it, else `default`.
    Raises CommandError if no target can be compared with what was named.
    """
    benchmarks: list[TargetBenchmark] = []
    exported = _exported(against)

    async def report_of(target_run: TargetRun, outcome: CheckOutcome) -> Report:
        asked = target_run.request.target
        names = configurations(compare, compiled=asked.compiled)
        try:
            before = _before(against, exported, asked.path, asked.name)
        except CommandError as error:  # other targets may have such a run
            failure = Failure(Culprit.USER, "against", str(error), "Measure it without --against")
            report = failure_report(target_run.request, failure, None)
            benchmarks.append(TargetBenchmark(report, None))
            return report
        asked_for = dataclasses.replace(plan, configurations=names)
        report = await target_run.run_report(measure_request(target_run.request, asked_for))
        benchmarks.append(_kept(report, before, outcome, history_of(asked.path, asked.name), options.notify))
        return report

    # Sampling a process stops it, which would falsify its times.
    outcome = await report_each(options, show, token, report_of, sample_after=0.0, splits_programs=True)
    return outcome, benchmarks


def kept_runs(path: str, target: str | None, before: str, after: str) -> tuple[BenchmarkRun, BenchmarkRun]:
    """Two kept benchmarks of a target, by their ids or `last`. Nothing is measured. Raises CommandError.

    `target`: None for the only target of the file that has any.
    """
    name = _only_target(path) if target is None else target.removeprefix(MAIN)
    first, second = (_before(run, None, path, name) for run in (before, after))
    if first is None or second is None:
        raise CommandError(f"{shown_path(path)}: name two runs, as `last` and an id")
    return first, second


def _only_target(path: str) -> str:
    """The target of a file that has kept benchmarks. Raises CommandError if there are several."""
    store = Store.of(Path(path))
    here = relative(store, path)
    names = sorted({owner.target for _, owner in owners(store) if owner.path == here})
    if not names:
        raise CommandError(
            f"{shown_path(path)} has no benchmarks. Make one with `fuselight bench {shown_path(path)}`."
        )
    if len(names) > 1:
        known = format_list([f"`{name or MAIN}`" for name in names])
        raise CommandError(f"{shown_path(path)} has benchmarks of {known}: name one of them")
    return names[0]


def _kept(
    report: Report,
    before: BenchmarkRun | None,
    outcome: CheckOutcome,
    history: History,
    notify: Callable[[str], None],
) -> TargetBenchmark:
    """Keep a finished benchmark in the history, or notify why it cannot be kept."""
    report = with_earlier_readings(report, history)
    run = run_of(report, str(history.store.folder.parent), outcome.sources.line)
    if run is not None:
        try:
            run = history.keep_run(run) or run
        except NotKeptError as error:
            notify(str(error))
    return TargetBenchmark(report, run, before)


def _exported(against: str | None) -> str | None:
    """The text of the export that is named; None for anything else. Raises CommandError if it is not an export."""
    if against is None or not against.endswith(".json"):
        return None
    try:
        return text_of(against)
    except NotReadError as error:
        raise CommandError(str(error)) from None


def _before(against: str | None, exported: str | None, path: str, target: str) -> BenchmarkRun | None:
    """The run to compare with. Raises CommandError."""
    if against is None:
        return None
    if exported is not None:
        try:
            return from_json(exported, target, path)
        except OtherTargetError as error:
            raise CommandError(f"{against}: {error}") from None
    other = Path(against)
    name = format_target(target)
    if other.suffix == ".py":
        run = history_of(str(other.absolute()), target).newest()
        if run is None:
            raise CommandError(
                f"{against} has no benchmark of `{name}`. Make one with `fuselight bench {against}`"
            )
        return run
    history = history_of(path, target)
    run = history.newest() if against == LAST else history.read(against)
    if run is None:
        known = ", ".join(past_run.id for past_run in history.runs())
        offer = f"Its runs are {known}" if known else "It has no runs yet"
        raise CommandError(f"{shown_path(path)}: `{name}` has no run `{against}`. {offer}")
    return run
