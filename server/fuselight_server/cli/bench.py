"""`fuselight bench`: eager against compiled, timed on this machine, with the time of each line.

Invariant: what is printed was measured in this run. Exit code 0: everything was measured; 1: results differ from
eager's; 2: something could not be measured.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from fuselight.shared.measurement_plans import MeasurePlan
from fuselight_server.base.command_error import CommandError
from fuselight_server.base.default_limits import COMPILE_LIMITS
from fuselight_server.base.finding import Severity
from fuselight_server.base.formatting import format_target
from fuselight_server.base.terminal import print_error, standard_output
from fuselight_server.cli.measure_options import (
    add_estimate_option,
    add_measure_options,
    add_timed_device_option,
    asked_configurations,
    work_of,
)
from fuselight_server.cli.options import add_command_options
from fuselight_server.cli.problems import report_problems
from fuselight_server.cli.progress import complete
from fuselight_server.commands.bench import measure
from fuselight_server.commands.outcome import CheckOutcome, TargetBenchmark
from fuselight_server.commands.sources import shown_path
from fuselight_server.explain.pages.document import NotBuiltError, page_parts

STOPPED = "stopped: finished benchmarks are in the history, the others were discarded"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_command_options(
        parser,
        formats=("text", "json", "csv", "html"),
        limits=COMPILE_LIMITS,
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
    add_estimate_option(parser)
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
        estimates_memory=options.estimate,
        device=options.device,
    )
    names = asked_configurations(options)
    try:
        if options.format == "html":
            page_parts("bench")
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
        or any(configuration.failure is not None for configuration in report.measured.configurations)
        for report in outcome.reports
    )
    if outcome.problems or has_failed or not outcome.reports:
        return 2
    findings = [finding for report in outcome.reports for finding in outcome.of_measured(report)]
    return int(any(finding.severity >= Severity.WARNING for finding in findings))


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
        for benchmark in benchmarks:
            name = (
                f"{shown_path(benchmark.report.target.path)}: {format_target(benchmark.report.target.name)}"
            )
            for failure in benchmark.report.failures:
                print_error(f"{name}: {failure.message}. {failure.next_step}".rstrip())
    report_problems(outcome, "measure", is_empty=not benchmarks)
