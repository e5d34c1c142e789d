"""A use case in the terminal: run to its end or to Ctrl-C, with its progress on one line of stderr."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.interrupts import interrupts_call
from fuselight_server.base.terminal import progress_line
from fuselight_server.cli.options import command_options
from fuselight_server.commands.options import CommandOptions

P = ParamSpec("P")
T = TypeVar("T")


def complete(
    options: Namespace,
    work: Callable[
        Concatenate[CommandOptions, Callable[[str], None], CancelToken, P], Coroutine[Any, Any, T]
    ],
    *given: P.args,
    **named: P.kwargs,
) -> T:
    """Do a use case, which gets its options, what shows its progress, its cancel token, and what is given here.

    Ends as `complete_work` does.
    """
    asked = command_options(options)
    return complete_work(
        lambda show, token: work(asked, show, token, *given, **named), is_quiet=options.verbose
    )


def complete_work(
    work: Callable[[Callable[[str], None], CancelToken], Coroutine[Any, Any, T]], *, is_quiet: bool = False
) -> T:
    """Do work that gets what shows its progress, and its cancel token.

    Ctrl-C cancels the token. Raises KeyboardInterrupt where that ended the work without a result.
    """
    token = CancelToken()

    async def run(show: Callable[[str], None]) -> T:
        loop = asyncio.get_running_loop()

        def cancel() -> None:
            token.cancel()
            loop.call_soon_threadsafe(lambda: None)  # wakes a loop that waits

        with interrupts_call(cancel):
            return await work(show, token)

    with progress_line(is_quiet=is_quiet) as show:
        try:
            return asyncio.run(run(show))
        except asyncio.CancelledError:
            if not token.is_canceled:
                raise
            raise KeyboardInterrupt from None
