"""One line on a terminal's stderr that says what is going on; nothing where stderr is no terminal.

Invariant: stdout is never touched, and the line is gone when the work is done.
"""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextlib.contextmanager
def shown_progress(*, quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """A function that shows its text until the next one."""
    if quiet or not sys.stderr.isatty():
        yield _nowhere
        return
    from rich.console import Console  # noqa: PLC0415 - only on a terminal

    console = Console(stderr=True, highlight=False, markup=False)
    with console.status("reading") as status:
        yield status.update


def _nowhere(_text: str) -> None:
    """Nobody looks."""
