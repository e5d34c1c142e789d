"""`fuselight doctor`: whether an interpreter can compile, and what to fix.

Invariant: exit code 0 where nothing failed, 1 where something did, 2 where there is no interpreter to ask.
"""

from __future__ import annotations

import asyncio
import json
import os
from argparse import ArgumentParser, BooleanOptionalAction, Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from fuselight.shared.foreign_files import project_root
from fuselight_server.base.terminal import Terminal, standard_output
from fuselight_server.cli.options import add_python_option
from fuselight_server.execution.interpreters import choose

if TYPE_CHECKING:
    from fuselight.doctor import Check
    from fuselight_server.base.settings import Interpreter


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the command's options."""
    add_python_option(parser, "the interpreter to check")
    parser.add_argument(
        "--compile", action=BooleanOptionalAction, default=True, help="compile a small model on each device"
    )
    parser.add_argument(
        "--format", choices=("text", "json"), default="text", help="output format (default: %(default)s)"
    )


def execute(options: Namespace) -> int:
    """Check an interpreter and print each check as it is done; returns the exit code."""
    from fuselight.shared.codec import encode  # noqa: PLC0415 - not for --help
    from fuselight_server.execution.doctor import failed, verdict  # noqa: PLC0415

    choice = choose(options.python, project_root(Path.cwd()), os.environ)
    terminal, is_text = standard_output(), options.format == "text"
    if is_text:
        terminal.print(f"{choice.executable} (from {choice.why})\n")
    checks = asyncio.run(_examine(choice, terminal if is_text else None, compiles=options.compile))
    if is_text:
        terminal.print(f"\n{verdict(checks)}")
    else:
        data = {"schema": 1, "interpreter": encode(choice), "checks": encode(checks)}
        terminal.print(json.dumps(data, indent=2))
    return int(failed(checks))


async def _examine(choice: Interpreter, terminal: Terminal | None, *, compiles: bool) -> list[Check]:
    """The checks, each printed on the terminal as it is done."""
    from fuselight.doctor import Status  # noqa: PLC0415 - as above
    from fuselight_server.execution.doctor import MARKS, examine  # noqa: PLC0415

    checks = []
    async for check in examine(choice, os.environ, compiles=compiles):
        checks.append(check)
        if terminal is None:
            continue
        terminal.print(f"{MARKS[check.status]:>8}  {check.title}: {check.found}")
        if check.status in {Status.FAILED, Status.WARNING}:
            terminal.print(f"          why it matters: {check.meaning}")
            if check.fix:
                terminal.print(f"          what to do: {check.fix}")
    return checks
