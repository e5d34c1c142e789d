"""Interrupts code of the user's that takes too long, within the process that runs it.

Invariant: what is interrupted sees a BaseException, which `except Exception` does not take; code that takes it is
interrupted again. Native code is not interrupted: the limit of the whole run ends it (worker/children.py).
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

import torch

_AGAIN = 0.5
"""Seconds after which code that goes on is interrupted again."""
_set_timer: Any = getattr(signal, "setitimer", None)  # bound before any user code runs


class DeadlineExceededError(BaseException):
    """The code has not ended in its time."""


@contextlib.contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise DeadlineExceededError in the block after some seconds; does nothing where the system has no timer."""
    if _set_timer is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    inside = [True]

    def interrupt(_number: int, _frame: object) -> None:
        if inside:
            raise DeadlineExceededError

    # Disabled, or Dynamo would compile the handler where it interrupts code of the user's.
    handler: Any = torch.compiler.disable(interrupt)  # type: ignore[no-untyped-call]
    before = signal.signal(signal.SIGALRM, handler)
    _set_timer(signal.ITIMER_REAL, seconds, _AGAIN)
    try:
        yield
    finally:
        inside.clear()
        _set_timer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
