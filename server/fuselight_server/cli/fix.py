"""`fuselight fix`: changes that remove findings, each run and compared with the text before it.

Invariant: a fix that is shown as passed was compiled and compared on top of those before it. Files change with
`--write` alone, each as a whole or not at all.
"""

from __future__ import annotations

import argparse

from fuselight_server.base.default_limits import CAPTURE_LIMITS
from fuselight_server.base.terminal import print_error, standard_error, standard_output
from fuselight_server.cli.options import add_command_options, add_tries_option
from fuselight_server.cli.problems import report_problems
from fuselight_server.cli.progress import complete
from fuselight_server.commands.check import TRIES
from fuselight_server.commands.fix import Attempt, fix
from fuselight_server.commands.notebook_cells import fix_in_cells


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_command_options(parser, formats=("text", "json"), limits=CAPTURE_LIMITS, limited="run")
    parser.add_argument(
        "--select",
        metavar="CODE",
        action="append",
        help="fix only findings with this code, or a code that starts so; repeatable",
    )
    add_tries_option(parser, tuple(TRIES))
    output = parser.add_mutually_exclusive_group()
    output.add_argument(
        "--diff",
        action="store_true",
        help="print the changes of the fixes that pass as a unified diff, all else on stderr",
    )
    output.add_argument("--write", action="store_true", help="write the fixes that pass into the files")
    parser.add_argument(
        "--allow-behavior-changes",
        "--allow-behaviour-changes",
        dest="changes_behavior",
        action="store_true",
        help="also try fixes that change random numbers, output or exceptions",
    )
    parser.add_argument(
        "--inductor",
        action="store_true",
        help="compile with Inductor too in each comparison, which takes longer and needs a C++ compiler or a GPU",
    )
    parser.add_argument(
        "--warm",
        action="store_true",
        help="also start each target twice, and fix what the second start compiles again",
    )


def execute(options: argparse.Namespace) -> int:
    """Try the fixes and print what became of each; returns the exit code."""

    def on_verdict(attempt: Attempt) -> None:
        if options.format == "json":
            return
        from fuselight_server.cli.formats.fixes import print_verdict  # noqa: PLC0415 - not for --help

        print_verdict(attempt, standard_error(options.color))

    outcome = complete(
        options,
        fix,
        codes=tuple(options.select or ()),
        changes_behavior=options.changes_behavior,
        writes=options.write,
        inductor=options.inductor,
        warm=options.warm,
        tries=TRIES[options.tries],
        on_verdict=on_verdict,
        keeps_partial=options.format != "json",  # a part of the fixes would pass for all of them
    )
    from fuselight_server.cli.formats.fixes import fixes_as_json, print_diff, print_fixes  # noqa: PLC0415 - not for --help

    terminal = standard_output(options.color)
    outcome = fix_in_cells(outcome)
    if options.format == "json":
        terminal.write_data(fixes_as_json(outcome) + "\n")
        return outcome.checked.exit_code
    if options.diff:
        print_diff(outcome, terminal)
        terminal = standard_error(options.color)  # stdout has the diff alone, for a file or `git apply`
    print_fixes(outcome, terminal, diff_shown=options.diff)
    for note in outcome.unmatched(options.select or ()):
        print_error(note)
    report_problems(outcome.checked, "fix")
    if outcome.checked.not_run is not None:
        raise KeyboardInterrupt("stopped: these are the fixes so far; further ones were not tried")
    return outcome.checked.exit_code
