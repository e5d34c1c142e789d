"""`fuselight bench`: eager against compiled, timed on this machine, with the time of each line.

Invariant: what is printed was measured in this run. Exit code 0: everything was measured; 1: results differ from
eager's; 2: something could not be measured.
"""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

from fuselight.shared.protocol import MeasurePlan
from fuselight.shared.report import Culprit, Failure
from fuselight_server.base.finding import Severity
from fuselight_server.base.terminal import print_error, standard_output
from fuselight_server.cli.measure_options import (
    add_measure_options,
    add_timed_device_option,
    asked_configurations,
    work_of,
)
from fuselight_server.commands.options import CommandError, CommandOptions, add_command_options
from fuselight_server.commands.outcome import TargetBenchmark, report_problems
from fuselight_server.commands.sources import shown_path
from fuselight_server.commands.targets import complete, report_each
from fuselight_server.explain.benchmarks.exports import (
    NotBuiltError,
    NotReadError,
    OtherTargetError,
    from_json,
    page_parts,
    text_of,
)
from fuselight_server.explain.benchmarks.history import NotKeptError, run_of
from fuselight_server.explain.benchmarks.history_diff import with_earlier_readings
from fuselight_server.explain.benchmarks.planning import (
    configurations,
    history_of,
    measure_request,
)
from fuselight_server.explain.findings.failures import failure_report

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuselight.shared.report import Report
    from fuselight_server.commands.outcome import CheckOutcome
    from fuselight_server.commands.targets import TargetRun
    from fuselight_server.explain.benchmarks.history import BenchmarkRun

LAST = "last"
"""Names the newest run before this one."""
STOPPED = "stopped: finished benchmarks are in the history, the others were discarded"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_command_options(
        parser,
        formats=("text", "json", "csv", "html"),
        seconds=600.0,
        memory_mb=16384,
        limited="configuration",
    )
    add_measure_options(parser)
    add_timed_device_option(parser)
    parser.add_argument(
        "--cold-cache", action="store_true", help="clear the device's L2 cache before each timed call"
    )
    parser.add_argument("--isolated", action="store_true", help="also time each generated kernel by itself")
    parser.add_argument(
        "--profile",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="measure the time of each kernel and line",
    )
    parser.add_argument(
        "--against",
        metavar="RUN|FILE",
        help="compare with an earlier run (`last`, or its id), an exported JSON, or the last run of another .py file",
    )


def execute(options: argparse.Namespace) -> int:
    """Measure the targets and print the times; returns the exit code."""
    plan = MeasurePlan(
        work=work_of(options),
        rounds=options.rounds,
        seconds=options.seconds,
        limit_seconds=options.time_limit,
        cold_cache=options.cold_cache,
        accuracy=options.accuracy,
        profile=options.profile,
        isolated=options.isolated,
        device=options.device,
    )
    names = asked_configurations(options)
    try:
        if options.format == "html":
            page_parts()
        outcome, benchmarks = complete(options, measure, plan=plan, compare=names, against=options.against)
        _print(outcome, benchmarks, options)
    except NotBuiltError as error:
        raise CommandError(str(error)) from None
    except KeyboardInterrupt:
        raise KeyboardInterrupt(STOPPED) from None
    return exit_code(outcome)


def exit_code(outcome: CheckOutcome) -> int:
    """0 everything was measured and is right, 1 results differ from eager's, 2 something could not be measured."""
    has_failed = any(
        report.failures
        or report.measured is None
        or not report.measured.finished
        or any(one.failure is not None for one in report.measured.configurations)
        for report in outcome.reports
    )
    if outcome.problems or has_failed or not outcome.reports:
        return 2
    found = [one for report in outcome.reports for one in outcome.of_measured(report)]
    return int(any(one.severity >= Severity.WARNING for one in found))


async def measure(
    options: CommandOptions,
    show: Callable[[str], None],
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
        report = await target_run.report(measure_request(target_run.request, asked_for))
        benchmarks.append(_kept(report, before, outcome, asked.path, asked.name))
        return report

    # Sampling a process stops it, which would falsify its times.
    outcome = await report_each(options, show, report_of, sample_after=0.0, splits_programs=True)
    return outcome, benchmarks


def _kept(
    report: Report, before: BenchmarkRun | None, outcome: CheckOutcome, path: str, target: str
) -> TargetBenchmark:
    """Keep a finished benchmark in the history, or say on stderr why it cannot be kept."""
    history = history_of(path, target)
    report = with_earlier_readings(report, history)
    run = run_of(report, str(history.store.folder.parent), outcome.sources.line)
    if run is not None:
        try:
            run = history.keep(run) or run
        except NotKeptError as error:
            print_error(str(error))
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
    name = target or "__main__"
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
        known = ", ".join(one.id for one in history.runs())
        offer = f"Its runs are {known}" if known else "It has no runs yet"
        raise CommandError(f"{shown_path(path)}: `{name}` has no run `{against}`. {offer}")
    return run


def _print(outcome: CheckOutcome, benchmarks: Sequence[TargetBenchmark], options: argparse.Namespace) -> None:
    from fuselight_server.cli.formats import bench as formats  # noqa: PLC0415 - not for --help

    terminal = standard_output(options.color)
    if options.format == "text":
        formats.print_benchmarks(outcome, benchmarks, terminal)
    else:
        render = {"json": formats.as_json, "csv": formats.as_csv, "html": formats.as_html}[options.format]
        terminal.write_data(render(outcome, benchmarks))
    if options.format == "html" and len(benchmarks) > 1:
        print_error("HTML shows the first target only; choose another with --target")
    if options.format in {"csv", "html"}:  # which have no place for failures
        for one in benchmarks:
            name = f"{shown_path(one.report.target.path)}: {one.report.target.name or '__main__'}"
            for failure in one.report.failures:
                print_error(f"{name}: {failure.message}. {failure.next_step}".rstrip())
    report_problems(outcome, "measure", is_empty=not benchmarks)
