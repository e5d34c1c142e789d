"""`fuselight ops`: what the calls of a target decompose into, and what a backend still lacks.

Invariant: no kernel is generated and nothing is launched. The exit code says whether an operator is missing.
"""

from __future__ import annotations

import difflib
import re
from typing import TYPE_CHECKING

from fuselight.shared.foreign_files import read_regular
from fuselight.shared.protocol import DecomposeRequest
from fuselight_server.base.terminal import standard_output
from fuselight_server.commands.options import CommandError, CommandOptions, add_command_options
from fuselight_server.commands.outcome import report_problems
from fuselight_server.commands.targets import complete, report_each

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from collections.abc import Callable

    from fuselight.shared.report import Report
    from fuselight_server.commands.outcome import CheckOutcome
    from fuselight_server.commands.targets import TargetRun

NAMED = ("core-aten", "prims", "inductor")
"""The sets that need no file."""
_OPERATOR = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*){0,2}")
_UNANALYZED = frozenset({"operators"})
"""Stages of a report's problems that leave out a whole graph."""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's options."""
    add_command_options(parser, formats=("text", "json"), seconds=300.0, memory_mb=16384)
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

    terminal = standard_output(options.color)
    if options.format == "json":
        terminal.write_data(as_json(outcome, options.opset) + "\n")
    else:
        print_operators(outcome, terminal, options.opset)
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


def read_operator_set(name: str) -> tuple[str, ...]:
    """The operators of a file, or the name of a set that needs no file. Raises CommandError."""
    if name in NAMED:
        return (name,)
    try:
        text = read_regular(name).decode()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        near = difflib.get_close_matches(name, NAMED, 1)
        hint = f" Did you mean `{near[0]}`?" if near else ""
        raise CommandError(
            f"`{name}` is neither a set ({', '.join(NAMED)}) nor a readable file of operators: {reason}.{hint}"
        ) from None
    found: dict[str, None] = {}
    for number, line in enumerate(text.splitlines(), 1):
        operator = line.partition("#")[0].strip().removeprefix("torch.ops.").replace("::", ".")
        if not operator:
            continue
        if operator not in NAMED and not _OPERATOR.fullmatch(operator):
            raise CommandError(
                f"{name}, line {number}: `{operator}` is not an operator. "
                "Write one per line, such as aten.add.Tensor or aten.add."
            )
        found.setdefault(operator)
    if not found:
        raise CommandError(
            f"{name} has no operators. Write one per line, such as aten.add.Tensor or aten.add."
        )
    return tuple(found)


async def read_operators(
    options: CommandOptions, show: Callable[[str], None], operator_set: tuple[str, ...]
) -> CheckOutcome:
    """The operators of every target, one after the other in one worker."""

    async def report_of(target_run: TargetRun, _outcome: CheckOutcome) -> Report:
        request = target_run.request.of_kind(DecomposeRequest, operator_set=operator_set)
        return await target_run.report(request)

    return await report_each(options, show, report_of)
