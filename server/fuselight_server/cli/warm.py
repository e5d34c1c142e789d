"""`fuselight warm`: which compiles a second start of the targets does again, and why.

Invariant: exit code 0 only if each second start read everything from the caches.
"""

from __future__ import annotations

import argparse

from fuselight_server.base.default_limits import COMPILE_LIMITS
from fuselight_server.base.terminal import standard_output
from fuselight_server.cli.options import add_command_options
from fuselight_server.cli.problems import report_problems
from fuselight_server.cli.progress import complete
from fuselight_server.commands.warm import warm


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_command_options(parser, formats=("text", "json"), limits=COMPILE_LIMITS, limited="start of a target")


def execute(options: argparse.Namespace) -> int:
    """Start the targets twice and print what was compiled again; returns the exit code."""
    outcome = complete(options, warm)
    from fuselight_server.cli.formats.jobs_caches import print_warm, warm_as_json  # noqa: PLC0415 - not for --help

    terminal = standard_output(options.color)
    if options.format == "json":
        terminal.write_data(warm_as_json(outcome) + "\n")
    else:
        print_warm(outcome, terminal)
        report_problems(outcome.check, "start", is_empty=not outcome.targets)
    return outcome.exit_code
