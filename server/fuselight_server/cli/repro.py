"""`fuselight repro`: the smallest program that still shows what torch.compile does wrong, and the text of an issue.

Invariant: what is printed was confirmed in a new process of Python; a reason stands for what was not.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fuselight_server.base.default_limits import COMPILE_LIMITS
from fuselight_server.base.terminal import standard_output
from fuselight_server.cli.options import add_command_options, at_least, read_by
from fuselight_server.cli.problems import report_problems
from fuselight_server.cli.progress import complete
from fuselight_server.commands.repro import ReproPlan, reproduce
from fuselight_server.repro.bisection import releases_between


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_command_options(parser, formats=("text", "json"), limits=COMPILE_LIMITS, limited="run of a target")
    parser.add_argument(
        "--budget",
        metavar="SECONDS",
        type=at_least(0.0),
        default=ReproPlan.seconds,
        help="time to make the program of one fault smaller (default: %(default)g)",
    )
    parser.add_argument(
        "--with-values",
        action="store_true",
        help="allow values of your small tensors in the program; else inputs are drawn from a range",
    )
    parser.add_argument(
        "--bisect",
        metavar="A..B",
        type=read_by(releases_between),
        default=(),
        help="also find the release of torch in which each fault begins or ends, as 2.11..2.15 or 2.13.0..2.14.1",
    )
    parser.add_argument(
        "--install",
        action="store_true",
        help="install releases of torch that are missing, with uv, in Fuselight's cache folder (up to 3 GB each)",
    )
    parser.add_argument(
        "--out", metavar="FOLDER", type=Path, help="write each program and the text of its issue into FOLDER"
    )


def execute(options: argparse.Namespace) -> int:
    """Reproduce the faults of the targets and print the programs; returns the exit code."""
    plan = ReproPlan(options.budget, options.with_values, options.bisect, options.install)
    outcome = complete(options, reproduce, plan=plan)
    from fuselight_server.cli.formats.repro import print_repro, repro_as_json, write_repro  # noqa: PLC0415 - not for --help

    written = write_repro(outcome, options.out) if options.out is not None else {}
    terminal = standard_output(options.color)
    if options.format == "json":
        terminal.write_data(repro_as_json(outcome) + "\n")
    else:
        print_repro(outcome, written, terminal)
        report_problems(outcome.check, "reproduce", is_empty=not (outcome.check.reports or outcome.faults))
    return outcome.exit_code
