"""`fuselight forecast`: which changes of a later call compile each target again.

Invariant: the same run, findings and exit codes as `fuselight check`; only the printing is the command's.
"""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from fuselight.shared.owned_folders import owned_folder
from fuselight_server.base.finding import Severity
from fuselight_server.base.formatting import format_count
from fuselight_server.base.terminal import print_error, standard_output
from fuselight_server.cli.check import add_analysis_options, analyzed
from fuselight_server.commands.options import add_command_options
from fuselight_server.commands.outcome import report_problems
from fuselight_server.commands.sources import read_text
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.forecasts.forecasts import expected_changes

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Awaitable, Callable

    from fuselight.shared.report import Report
    from fuselight_server.cli.formats.forecast import Trials
    from fuselight_server.commands.outcome import CheckOutcome
    from fuselight_server.commands.targets import TargetRun


Forecast: TypeAlias = "Callable[[TargetRun, CheckOutcome], Awaitable[Report]]"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's options."""
    add_command_options(parser, formats=("text", "json"), seconds=120.0, memory_mb=8192)
    add_analysis_options(parser)
    parser.add_argument(
        "--all", action="store_true", dest="is_full", help="also list the changes that need no compile"
    )
    parser.add_argument(
        "--verify",
        action="store_true",
        help="make each likely change, and try the remedies that change your code: takes some calls of the target each",
    )


def execute(options: Namespace) -> int:
    """Run the targets and print their forecasts; returns the exit code of `fuselight check`."""
    trials: Trials = {}
    asked: list[Report] = []
    if options.verify:
        with owned_folder("forecast") as folder:
            tried = functools.partial(_tried, trials, folder)
            outcome = analyzed(options, functools.partial(_asked, asked, tried))
    else:
        outcome = analyzed(options, functools.partial(_asked, asked, _reported))
    shown = dataclasses.replace(outcome, reports=asked)
    from fuselight_server.cli.formats.forecast import as_json, print_forecasts  # noqa: PLC0415 - not for --help

    terminal = standard_output(options.color)
    if options.format == "json":
        terminal.write_data(as_json(shown, trials) + "\n")
        return outcome.exit_code
    print_forecasts(shown, terminal, trials if options.verify else None, is_full=options.is_full)
    report_problems(outcome, "analyze", is_empty=not outcome.reports)
    warnings = sum(one.severity >= Severity.WARNING for one in outcome.findings)
    if warnings:
        print_error(f"`fuselight check` shows {format_count(warnings, 'finding')} in these targets")
    return outcome.exit_code


async def _asked(
    asked: list[Report], forecast: Forecast, target_run: TargetRun, outcome: CheckOutcome
) -> Report:
    """Report one target; `asked` gets what has a forecast: the target, or each thing that its program compiles."""
    report = await forecast(target_run, outcome)
    parts = [await forecast(one, outcome) for one in target_run.calls(report)]
    asked += parts or [report]
    return report


async def _reported(target_run: TargetRun, _outcome: CheckOutcome) -> Report:
    return await target_run.report()


async def _tried(trials: Trials, folder: str, target_run: TargetRun, outcome: CheckOutcome) -> Report:
    """Report one target, and try remedies for the likely changes of its forecast."""
    from fuselight_server.fixes.verification.fixer import Fixer  # noqa: PLC0415 - not for --help
    from fuselight_server.fixes.verification.forecast_trials import tried_changes, try_remedies  # noqa: PLC0415

    report = await target_run.report()
    fixer = Fixer(read=_text, obstacle=lambda _remedy: "", readings=outcome.readings, folder=folder)
    tried = trials.setdefault((report.target.path, report.target.name), {})
    for one in tried_changes(expected_changes(Context.of(report, read_line=outcome.sources.line))):
        tried[one] = await try_remedies(fixer, target_run, report, one)
    fixer.forget_results()
    return report


def _text(path: str) -> str | None:
    found = read_text(Path(path))
    return found if isinstance(found, str) else None
