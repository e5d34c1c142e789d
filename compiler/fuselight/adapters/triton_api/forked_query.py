"""Runs a query in a forked child, because LLVM ends its process when it cannot compile something.

Invariant: this process continues whatever happens to the child, and nothing that the child changed, printed or left
open affects it. Without a safe fork, the query runs in this process.
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import select
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable
from typing import BinaryIO

FORKS = sys.platform == "linux"
_HEARD = 1 << 16
"""Bytes of what the child said that are read."""


class Ended(Exception):  # noqa: N818 - what became of the child, not what went wrong here
    """The child ended without an answer. The message says how, with its last words."""


def ask_apart(question: Callable[[Callable[[], str]], bytes], seconds: float | None = None) -> bytes:
    """Return the result of `question`. Its argument returns what was printed to descriptor 2.

    Raises Ended, also after `seconds`. Where the query runs in this process, it has no limit.
    """
    if not FORKS:
        return question(str)
    with tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as output:
        child = _fork()
        if child == 0:
            _answer(question, answer, output)
        try:
            if seconds is not None:
                _wait(child, seconds)
            _, status = os.waitpid(child, 0)
        except BaseException:  # an interrupt, or the limit: nobody waits for the answer any more
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise
        code = os.waitstatus_to_exitcode(status)
        if code == 0:
            answer.seek(0)
            return answer.read()
        raise Ended(_how(code, _read(output)))


def _wait(child: int, seconds: float) -> None:
    """Wait until a child has ended, which is not collected. Raises Ended after `seconds`."""
    try:
        descriptor = os.pidfd_open(child)
    except OSError:  # an old kernel: it has no limit then
        return
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        if not poll.poll(seconds * 1000):
            raise Ended(f"the compiler did not finish within {seconds:g} seconds")
    finally:
        os.close(descriptor)


def _fork() -> int:
    with warnings.catch_warnings():
        # Threads of the parent's are not in the child, which takes no lock that one of them may hold.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _answer(question: Callable[[Callable[[], str]], bytes], answer: BinaryIO, output: BinaryIO) -> None:
    """The child's whole life."""
    import resource  # noqa: PLC0415 - Windows has none

    code = 1
    try:
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 0)
        os.dup2(nowhere, 1)
        os.dup2(output.fileno(), 2)
        faulthandler.disable()  # it may write to another descriptor, and the stack is this package's
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        answer.write(question(lambda: _read(output)))
        answer.flush()
        code = 0
    finally:
        os._exit(code)  # no handlers of the parent's, no buffers written twice


def _read(output: BinaryIO) -> str:
    with contextlib.suppress(OSError):
        return os.pread(output.fileno(), _HEARD, 0).decode("utf-8", "replace")
    return ""


def _how(code: int, output: str) -> str:
    # LLVM says some things many times over.
    words = " ".join(dict.fromkeys(" ".join(line.split()) for line in output.splitlines()))
    ended = signal.Signals(-code).name if code < 0 else f"status {code}"
    return f"the compiler ended with {ended}" + (f": {words}" if words else "")
