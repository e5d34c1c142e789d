"""The messages of an editor, read from the server's pipe (`base/pipes.py` owns it).

Invariant: a damaged header costs one message, not the server.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from concurrent.futures import ThreadPoolExecutor

MESSAGE_BYTES = 256 * 1024 * 1024
"""The largest message that is read."""
_HEADER_BYTES = 1 << 16
_LENGTH = re.compile(rb"Content-Length:\s*(\d+)\s*$", re.IGNORECASE)


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
