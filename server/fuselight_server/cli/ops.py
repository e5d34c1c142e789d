"""`fuselight ops`: what the calls of a target decompose into, and what a backend still lacks.

Invariant: no kernel is generated and nothing is launched. The exit code says whether an operator is missing.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from fuselight_server.base.default_limits import COMPILE_LIMITS
from fuselight_server.base.terminal import standard_output
from fuselight_server.cli.options import add_command_options
from fuselight_server.cli.problems import report_problems
from fuselight_server.cli.progress import complete
from fuselight_server.commands.notebook_cells import check_in_cells
from fuselight_server.commands.ops import NAMED, read_operator_set, read_operators
from fuselight_server.commands.outcome import CheckOutcome

_UNANALYZED = frozenset({"operators"})
"""Stages of a report's problems that leave out a whole graph."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's options."""
    add_command_options(parser, formats=("text", "json"), limits=COMPILE_LIMITS._replace(seconds=300.0))
    parser.add_argument(
        "--opset",
        metavar=f"{{{','.join(NAMED)},FILE}}",
        help="show which operators a backend with this set lacks; FILE: one operator per line, such as aten.add",
    )


def execute(options: Namespace) -> int:
    """Decompose the operators and print them; returns the exit code."""
    operator_set = read_operator_set(options.opset) if options.opset is not None else ()
    outcome = complete(options, read_operators, operator_set)
    from fuselight_server.cli.formats.ops import as_json, print_operators  # noqa: PLC0415 - not for --help

    terminal, shown = standard_output(options.color), check_in_cells(outcome)
    if options.format == "json":
        terminal.write_data(as_json(shown, options.opset) + "\n")
    else:
        print_operators(shown, terminal, options.opset)
        report_problems(outcome, "analyze", is_empty=not outcome.reports)
    return exit_code(outcome)


def exit_code(outcome: CheckOutcome) -> int:
    """0 no operator is missing, 1 one is, 2 a target or one of its graphs could not be analyzed."""
    unread = any(
        report.failures or any(problem.stage in _UNANALYZED for problem in report.problems)
        for report in outcome.reports
    )
    if outcome.problems or unread or not outcome.reports:
        return 2
    return int(any(path.lacking for report in outcome.reports for path in report.operators))
