"""The server's pipes to its client: nothing else in the process can write to them, and they never delay its work.

Invariant: messages are written whole and in order. A client that reads slowly costs memory, not time, and a damaged
header costs one message, not the server.
"""

from __future__ import annotations

import asyncio
import os
import queue
import re
import threading
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from concurrent.futures import ThreadPoolExecutor

MESSAGE_BYTES = 256 * 1024 * 1024
"""The largest message that is read."""
_HEADER_BYTES = 1 << 16
_LENGTH = re.compile(rb"Content-Length:\s*(\d+)\s*$", re.IGNORECASE)


def own_pipes() -> tuple[BinaryIO, BinaryIO]:
    """Take the protocol off descriptors 0 and 1, so that a stray print or child process cannot break framing."""
    stdin = os.fdopen(os.dup(0), "rb")
    stdout = os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return stdin, stdout


class BoundedReader:
    """Reads in a thread; a header that is damaged, or of a message that is too large, is skipped."""

    def __init__(self, stdin: BinaryIO, executor: ThreadPoolExecutor, log: Callable[[str], None]) -> None:
        self._stdin = stdin
        self._executor = executor
        self._log = log

    def readline(self) -> Awaitable[bytes]:
        """Read one line of a header."""
        return asyncio.get_running_loop().run_in_executor(self._executor, self._header_line)

    def readexactly(self, n: int) -> Awaitable[bytes]:
        """Read the body of a message."""
        return asyncio.get_running_loop().run_in_executor(self._executor, self._stdin.read, n)

    def _header_line(self) -> bytes:
        line = self._stdin.readline(_HEADER_BYTES)
        match = _LENGTH.search(line)
        if match is None:
            return line
        if len(match[1]) < len(str(MESSAGE_BYTES)) or int(match[1]) <= MESSAGE_BYTES:
            # The body of a message that was skipped can stand before it on the line.
            return b"Content-Length: %s\r\n" % match[1]
        self._log(f"skipped a message of {match[1][:20].decode()} bytes: the limit is {MESSAGE_BYTES:,}")
        return b"Skipped: message\r\n"


class ThreadedWriter:
    """Writes in a thread of its own: a pipe holds 64 KiB, and the lenses of a huge file take more than a megabyte."""

    def __init__(self, pipe: BinaryIO) -> None:
        self._pipe = pipe
        self._waiting: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._error: OSError | None = None
        self._thread = threading.Thread(target=self._work, name="writer", daemon=True)
        self._thread.start()

    def write(self, data: bytes) -> None:
        """Write `data` after all earlier data. Raises OSError once the client is known to be gone."""
        if self._error is not None:
            raise self._error
        self._waiting.put(data)

    def finish(self, seconds: float) -> None:
        """Allow this long to write the data that waits; nothing may be written after."""
        self._waiting.put(None)
        self._thread.join(seconds)

    def close(self) -> None:
        """Write the data that waits, then close; for pygls, which closes its writer."""
        self.finish(1.0)
        self._pipe.close()

    def _work(self) -> None:
        while (data := self._waiting.get()) is not None:
            if self._error is not None:
                continue  # drop it: nobody reads
            try:
                self._pipe.write(data)
                self._pipe.flush()
            except OSError as error:
                self._error = error
