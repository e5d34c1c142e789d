"""`fuselight doctor`: whether an interpreter can compile, and what to mend.

Invariant: exit code 0 where nothing failed, 1 where something did, 2 where there is no interpreter to ask.
"""

from __future__ import annotations

import asyncio
import enum
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from fuselight.codec import encode
from fuselight_server.interpreters import NoInterpreterError, choose
from fuselight_server.store import project_root

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuselight.doctor import Check
    from fuselight_server.interpreters import Choice


class DoctorFormat(str, enum.Enum):
    """How to print."""

    TEXT = "text"
    JSON = "json"


def doctor(
    python: Annotated[
        Optional[str],  # noqa: UP045 - evaluated at run time, on 3.10 too
        typer.Option(help="The interpreter to check (else: the environment, .venv, python3)."),
    ] = None,
    compiles: Annotated[  # noqa: FBT002 - a flag
        bool, typer.Option("--compile/--no-compile", help="Compile a small model on each device.")
    ] = True,
    output_format: Annotated[
        DoctorFormat, typer.Option("--format", help="How to print.")
    ] = DoctorFormat.TEXT,
) -> None:
    """Check the environment: Python, torch, Triton, compilers, driver, cache, and a real compile on each device."""
    from fuselight_server.doctor import failed, verdict  # noqa: PLC0415 - not for --help

    try:
        choice = choose(python, project_root(Path.cwd()), os.environ)
    except NoInterpreterError as error:
        typer.echo(f"fuselight: {error}", err=True)
        raise typer.Exit(2) from None
    if output_format is DoctorFormat.TEXT:
        typer.echo(f"{choice.executable} (chosen by {choice.why})\n")
    told = _print if output_format is DoctorFormat.TEXT else _ignore
    found = asyncio.run(_examined(choice, told, compiles=compiles))
    if output_format is DoctorFormat.JSON:
        typer.echo(
            json.dumps({"schema": 1, "interpreter": encode(choice), "checks": encode(found)}, indent=2)
        )
    else:
        typer.echo(f"\n{verdict(found)}")
    raise typer.Exit(int(failed(found)))


async def _examined(choice: Choice, told: Callable[[Check], None], *, compiles: bool) -> list[Check]:
    from fuselight_server.doctor import examine  # noqa: PLC0415 - as above
    from fuselight_server.worker_start import Interpreter  # noqa: PLC0415

    found = []
    async for check in examine(Interpreter(choice.executable), os.environ, compiles=compiles):
        found.append(check)
        told(check)
    return found


def _print(check: Check) -> None:
    from fuselight.doctor import Status  # noqa: PLC0415 - as above
    from fuselight_server.doctor import mark  # noqa: PLC0415

    typer.echo(f"{mark(check.status):>8}  {check.title}: {check.found}")
    if check.status in {Status.FAILED, Status.WARNING}:
        typer.echo(f"          why it matters: {check.meaning}")
        if check.mend:
            typer.echo(f"          what to do: {check.mend}")


def _ignore(_check: Check) -> None:
    """JSON is printed at the end."""
