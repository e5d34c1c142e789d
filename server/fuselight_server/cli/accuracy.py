"""`fuselight accuracy`: whether the compiled calls of the targets give the results of eager mode, and why not.

Invariant: exit code 0 only if calls of each target were compared, and all of them are as in eager mode.
"""

from __future__ import annotations

import argparse

from fuselight_server.base.default_limits import COMPILE_LIMITS
from fuselight_server.base.terminal import standard_output
from fuselight_server.cli.accuracy_options import add_accuracy_options, asked_accuracy_plan
from fuselight_server.cli.options import add_command_options, add_training_options
from fuselight_server.cli.problems import report_problems
from fuselight_server.cli.progress import complete
from fuselight_server.commands.accuracy import AccuracyOutcome, compare
from fuselight_server.commands.notebook_cells import check_in_cells


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_command_options(
        parser, formats=("text", "json", "html"), limits=COMPILE_LIMITS, limited="run of a target"
    )
    add_training_options(
        parser,
        training="call targets with inputs of their own for training: gradients, too",
        inference="call them for inference",
    )
    add_accuracy_options(parser)


def execute(options: argparse.Namespace) -> int:
    """Compare the targets and print what differs; returns the exit code."""
    plan = asked_accuracy_plan(options, training=options.training)
    outcome = AccuracyOutcome(check_in_cells(complete(options, compare, plan=plan).check))
    from fuselight_server.cli.formats.accuracy import accuracy_as_json, print_accuracy  # noqa: PLC0415 - not for --help

    terminal = standard_output(options.color)
    if options.format == "json":
        terminal.write_data(accuracy_as_json(outcome) + "\n")
    elif options.format == "html":
        from fuselight_server.cli.formats.accuracy_page import accuracy_as_page  # noqa: PLC0415 - one format is printed

        terminal.write_data(accuracy_as_page(outcome) + "\n")
    else:
        print_accuracy(outcome, terminal)
        report_problems(outcome.check, "compare", is_empty=not outcome.check.reports)
    return outcome.exit_code
