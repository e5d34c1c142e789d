"""`fuselight ops`: what the calls of a target decompose into, and what a backend would still lack.

Invariant: no kernel is generated and nothing is launched. The exit code says whether something is lacking.
"""

from __future__ import annotations

import asyncio
import dataclasses
import difflib
import enum
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from fuselight.protocol import Limits
from fuselight.report import Tier
from fuselight_server.cli.progress import shown_progress
from fuselight_server.cli.started import StartedWorker
from fuselight_server.cli.targets import report_each
from fuselight_server.interpreters import NoInterpreterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuselight.report import Report
    from fuselight_server.cli.outcome import Outcome
    from fuselight_server.cli.targets import Turn

NAMED = ("core-aten", "prims", "inductor")
"""The sets that need no file."""
_OPERATOR = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*){0,2}")
_UNANALYSED = frozenset({"operators"})
"""Stages of a report's problems that leave out a whole graph."""


class OperatorSetError(Exception):
    """A set of operators that cannot be read."""


class OpsFormat(str, enum.Enum):
    """How to print."""

    TEXT = "text"
    JSON = "json"


@dataclasses.dataclass(frozen=True)
class OpsOptions:
    """What the command line asked for."""

    paths: tuple[Path, ...]
    targets: tuple[str, ...] = ()
    operator_set: tuple[str, ...] = ()
    python: str | None = None
    limits: Limits = dataclasses.field(default_factory=Limits)
    verbose: bool = False


def ops(  # noqa: PLR0917 - the parameters are the command's options, given by name
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...", help="Files and folders.")],
    target: Annotated[
        Optional[list[str]],  # noqa: UP045 - evaluated at run time, on 3.10 too
        typer.Option(help="Read this class or function alone. Repeatable."),
    ] = None,
    opset: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            metavar="core-aten|prims|inductor|FILE",
            help="Say what a backend with these operators lacks. FILE: one operator a line, as aten.add.",
        ),
    ] = None,
    output_format: Annotated[OpsFormat, typer.Option("--format", help="How to print.")] = OpsFormat.TEXT,
    python: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(help="The interpreter that has torch (else: the environment, .venv, python3)."),
    ] = None,
    time_limit: Annotated[float, typer.Option(help="Seconds for one target, 0 for none.", min=0)] = 300.0,
    memory_limit: Annotated[
        int, typer.Option(help="MB of memory for one target, 0 for none.", min=0)
    ] = 16384,
    verbose: Annotated[  # noqa: FBT002 - a flag
        bool, typer.Option("--verbose", "-v", help="Show the worker's log on stderr.")
    ] = False,
) -> None:
    """Show what the operators of the targets in PATHS decompose into, and what a backend lacks of them."""
    try:
        options = OpsOptions(
            paths=tuple(paths),
            targets=tuple(target or ()),
            operator_set=read_operator_set(opset) if opset is not None else (),
            python=python,
            limits=Limits(seconds=time_limit, memory_mb=memory_limit),
            verbose=verbose,
        )
        with shown_progress(quiet=verbose) as say:
            outcome = asyncio.run(read_operators(options, say))
    except (OperatorSetError, NoInterpreterError, OSError) as error:
        typer.echo(f"fuselight: {error}", err=True)
        raise typer.Exit(2) from None
    if output_format is OpsFormat.JSON:
        from fuselight_server.cli.formats.ops_json import as_json  # noqa: PLC0415

        typer.echo(as_json(outcome, opset))
    else:
        from rich.console import Console  # noqa: PLC0415 - only for people

        from fuselight_server.cli.formats.ops_text import print_operators  # noqa: PLC0415

        print_operators(outcome, Console(highlight=False, emoji=False, markup=False), opset)
    raise typer.Exit(exit_code(outcome))


def exit_code(outcome: Outcome) -> int:
    """0 nothing is lacking, 1 something is, 2 a target or a graph of it could not be analysed."""
    unread = any(
        report.failures or any(problem.stage in _UNANALYSED for problem in report.problems)
        for report in outcome.reports
    )
    if outcome.problems or unread or not outcome.reports:
        return 2
    return int(any(path.lacking for report in outcome.reports for path in report.operators))


def read_operator_set(name: str) -> tuple[str, ...]:
    """The operators of a file, or the name of a set that needs none. Raises OperatorSetError."""
    if name in NAMED:
        return (name,)
    try:
        text = Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        sets = ", ".join(NAMED)
        reason = getattr(error, "strerror", None) or "it is not text"
        near = difflib.get_close_matches(name, NAMED, 1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise OperatorSetError(
            f"{name} is none of {sets}, and no file of operators either: {reason}{hint}"
        ) from None
    found: dict[str, None] = {}
    for number, line in enumerate(text.splitlines(), 1):
        operator = line.partition("#")[0].strip().removeprefix("torch.ops.").replace("::", ".")
        if not operator:
            continue
        if operator not in NAMED and not _OPERATOR.fullmatch(operator):
            raise OperatorSetError(
                f"{name}, line {number}: {operator!r} is no operator; write one a line, as aten.add.Tensor or aten.add"
            )
        found.setdefault(operator)
    if not found:
        raise OperatorSetError(f"{name} names no operator; write one a line, as aten.add.Tensor or aten.add")
    return tuple(found)


async def read_operators(options: OpsOptions, say: Callable[[str], None]) -> Outcome:
    """The operators of every target, one after the other in one worker."""

    async def report_of(turn: Turn, _outcome: Outcome) -> Report:
        request = dataclasses.replace(
            turn.request, tier=Tier.KERNELS, operators=True, operator_set=options.operator_set
        )
        return await turn.run(request)

    worker = StartedWorker(options.python, options.paths[0], verbose=options.verbose)
    return await report_each(
        options.paths, worker, say, report_of, targets=options.targets, limits=options.limits
    )
