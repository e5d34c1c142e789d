"""Ctrl-C and SIGTERM end a command at any moment: folders are removed, and stderr gets one line.

Invariant: a signal that this process was started to ignore stays ignored. While a command is imported nothing has been
started that would have to be ended, so that the process exits at once; later both signals raise KeyboardInterrupt,
or call what a command has named in `interrupts_call`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

INTERRUPTED = 130
"""The exit code that a shell gives a program which Ctrl-C ended."""
STOPPED = "fuselight: stopped\n"
_TERMINATIONS = ("SIGTERM", "SIGHUP")
_termination: int | None = None
"""The signal that ends the command, if it is not Ctrl-C."""
_on_interrupt: Callable[[int, FrameType | None], None] | None = None
"""What a command does at the first signal, in place of a KeyboardInterrupt."""


def exit_at_interrupts() -> None:
    """Have Ctrl-C exit at once: nothing has begun, or everything is over."""
    _handle_interrupts(_exit)


def raise_at_interrupts() -> None:
    """Have Ctrl-C raise KeyboardInterrupt, and SIGTERM do what Ctrl-C does."""
    _handle_interrupts(signal.default_int_handler)
    for name in _TERMINATIONS:
        number = getattr(signal, name, None)
        if number is not None and _is_main_thread() and signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _interrupt)


@contextlib.contextmanager
def interrupts_call(cancel: Callable[[], None]) -> Iterator[None]:
    """Have the first Ctrl-C or SIGTERM call `cancel`; the second one raises KeyboardInterrupt."""
    global _on_interrupt  # noqa: PLW0603 - of the process, as signals are
    calls: list[int] = []

    def handle(number: int, _frame: FrameType | None) -> None:
        if calls:
            raise KeyboardInterrupt
        calls.append(number)
        cancel()

    before = signal.getsignal(signal.SIGINT)
    replaces = _is_main_thread() and before not in (signal.SIG_IGN, signal.SIG_DFL, None)
    if replaces:
        signal.signal(signal.SIGINT, handle)
    _on_interrupt = handle
    try:
        yield
    finally:
        _on_interrupt = None
        if replaces:
            signal.signal(signal.SIGINT, before)


def is_interrupt(error: BaseException) -> bool:
    """Whether Ctrl-C is what raised an exception: Python wraps one that is raised while a class is made."""
    return any(isinstance(error, KeyboardInterrupt) for error in _chain(error))


def end_of(command: Callable[[], int]) -> int:
    """Run a command; returns its exit code. One that a signal ended says so, and ends by that signal."""
    try:
        code = command()
    except BaseException as error:
        if not is_interrupt(error):
            raise
        exit_at_interrupts()
        sys.stderr.write(STOPPED)
        code = INTERRUPTED
    exit_at_interrupts()
    if _termination is not None and code == INTERRUPTED:
        sys.stdout.flush()
        sys.stderr.flush()
        signal.signal(_termination, signal.SIG_DFL)
        signal.raise_signal(_termination)
    return code


def _handle_interrupts(handler: Callable[[int, FrameType | None], object]) -> None:
    if _is_main_thread() and signal.getsignal(signal.SIGINT) in {_exit, signal.default_int_handler}:
        signal.signal(signal.SIGINT, handler)


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _exit(number: int, _frame: FrameType | None) -> None:
    os.write(2, STOPPED.encode())
    os._exit(128 + number)


def _interrupt(number: int, _frame: FrameType | None) -> None:
    global _termination  # noqa: PLW0603 - of the process
    _termination = number
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # a shell's background job inherits that
        if _on_interrupt is not None:
            _on_interrupt(number, _frame)
            return
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.raise_signal(signal.SIGINT)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    known: set[int] = set()
    while error is not None and id(error) not in known:
        known.add(id(error))
        yield error
        error = error.__cause__ or error.__context__
