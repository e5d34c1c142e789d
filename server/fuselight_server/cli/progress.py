"""A use case in the terminal: run to its end, with its progress on one line of stderr."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from fuselight_server.base.terminal import progress_line
from fuselight_server.cli.options import command_options

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Coroutine

    from fuselight_server.commands.options import CommandOptions

P = ParamSpec("P")
T = TypeVar("T")


def complete(
    options: Namespace,
    work: Callable[Concatenate[CommandOptions, Callable[[str], None], P], Coroutine[Any, Any, T]],
    *given: P.args,
    **named: P.kwargs,
) -> T:
    """Do a command's work, which gets its options and what shows its progress before what is given here."""
    with progress_line(is_quiet=options.verbose) as show:
        return asyncio.run(work(command_options(options), show, *given, **named))
