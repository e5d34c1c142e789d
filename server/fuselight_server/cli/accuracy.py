"""`fuselight accuracy`: whether the compiled calls of the targets give the results of eager mode, and why not.

Invariant: exit code 0 only if calls of each target were compared, and all of them are as in eager mode.
"""

from __future__ import annotations

import argparse

from fuselight.shared.configurations import ConfigurationError
from fuselight_server.base.terminal import standard_output
from fuselight_server.cli.measure_options import add_timed_device_option
from fuselight_server.cli.options import add_command_options, at_least
from fuselight_server.cli.problems import report_problems
from fuselight_server.cli.progress import complete
from fuselight_server.commands.accuracy import (
    TRIES,
    AccuracyOutcome,
    AccuracyPlan,
    compare,
    compared_with,
)
from fuselight_server.commands.notebook_cells import check_in_cells


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_command_options(
        parser, formats=("text", "json", "html"), seconds=600.0, memory_mb=16384, limited="run of a target"
    )
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument(
        "--train",
        dest="training",
        action="store_true",
        default=None,
        help="call targets with inputs of their own for training: gradients, too (default: as the directive says)",
    )
    mode.add_argument(
        "--inference", dest="training", action="store_false", default=None, help="call them for inference"
    )
    parser.add_argument(
        "--tries",
        choices=tuple(TRIES),
        default="some",
        help="which settings of torch that may cure a wrong result are tried: none, the first 6 of its stage, or "
        "all, until one cures (default: %(default)s)",
    )
    parser.add_argument(
        "--locate",
        metavar="SECONDS",
        type=at_least(0.0),
        default=AccuracyPlan.locate_seconds,
        help="time to search the first line that differs, in each function that is wrong, 0 for no search "
        "(default: %(default)g)",
    )
    parser.add_argument(
        "--against",
        metavar="NAME",
        type=_other_configuration,
        default="",
        help="what calls are compared with: eager, or a configuration as `fuselight bench --compare` takes it, as "
        "default or max-autotune-no-cudagraphs+tf32 (default: eager)",
    )
    add_timed_device_option(
        parser,
        "where targets with inputs of their own run: cpu, cuda or cuda:1 (default: as their source says)",
    )
    parser.add_argument(
        "--kernels",
        action="store_true",
        help="also replay each generated kernel of right calls on its own inputs, next to its operators",
    )


def _other_configuration(text: str) -> str:
    """A type of argument: a configuration that a compiled call can be compared with; empty for eager mode."""
    try:
        return compared_with(text.strip()) if text.strip() else ""
    except ConfigurationError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def execute(options: argparse.Namespace) -> int:
    """Compare the targets and print what differs; returns the exit code."""
    plan = AccuracyPlan(
        options.locate,
        TRIES[options.tries],
        options.training,
        options.device,
        options.against,
        options.kernels,
    )
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
