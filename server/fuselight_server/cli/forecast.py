"""`fuselight forecast`: which changes of a later call compile each target again.

Invariant: the same run, findings and exit codes as `fuselight check`; only the printing is the command's.
"""

from __future__ import annotations

import dataclasses
from argparse import ArgumentParser, Namespace

from fuselight_server.base.default_limits import CAPTURE_LIMITS
from fuselight_server.base.finding import Severity
from fuselight_server.base.formatting import format_count
from fuselight_server.base.terminal import print_error, standard_output
from fuselight_server.cli.check import add_analysis_options, analysis_options
from fuselight_server.cli.options import add_command_options
from fuselight_server.cli.problems import report_problems
from fuselight_server.cli.progress import complete
from fuselight_server.commands.forecast import forecast
from fuselight_server.commands.notebook_cells import forecast_in_cells


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's options."""
    add_command_options(parser, formats=("text", "json"), limits=CAPTURE_LIMITS)
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
    forecast_outcome = complete(options, forecast, **analysis_options(options), tries_changes=options.verify)
    outcome, trials = forecast_outcome.checked, forecast_outcome.trials
    shown = dataclasses.replace(outcome, reports=list(forecast_outcome.reports))
    shown, trials = forecast_in_cells(shown, trials)
    from fuselight_server.cli.formats.forecast import as_json, print_forecasts  # noqa: PLC0415 - not for --help

    terminal = standard_output(options.color)
    if options.format == "json":
        terminal.write_data(as_json(shown, trials) + "\n")
        return outcome.exit_code
    print_forecasts(shown, terminal, trials if options.verify else None, is_full=options.is_full)
    report_problems(outcome, "analyze", is_empty=not outcome.reports)
    warnings = sum(finding.severity >= Severity.WARNING for finding in outcome.findings)
    if warnings:
        print_error(f"`fuselight check` shows {format_count(warnings, 'finding')} in these targets")
    return outcome.exit_code
