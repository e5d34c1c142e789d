"""The messages of an editor, read from the server's pipe (`base/pipes.py` owns it).

Invariant: a damaged header costs one message, not the server.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, BinaryIO

from fuselight.shared.foreign_data import MAX_DEPTH, parse_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from concurrent.futures import ThreadPoolExecutor

MESSAGE_BYTES = 256 * 1024 * 1024
"""The largest message that is read."""
_HEADER_BYTES = 1 << 16
_LENGTH = re.compile(rb"Content-Length:\s*(\d+)\s*$", re.IGNORECASE)


_TOKEN = re.compile(rb'[\[\]{}]|"(?P<key>[a-z]+)"\s*:\s*|"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
"""A bracket, a key, or a text, in which brackets do not count. A text that is cut lasts to the end of the body:
otherwise each escaped quote in it would begin another search to the end."""
_ID = re.compile(rb'-?\d{1,18}(?=[\s,}])|"[^"\\\x00-\x1f\x80-\xff]{0,200}"')


class BoundedReader:
    """Reads in a thread; a header that is damaged, or of a message that is too large, is skipped."""

    def __init__(
        self,
        stdin: BinaryIO,
        executor: ThreadPoolExecutor,
        log: Callable[[str], None],
        refuse: Callable[[int | str], None],
    ) -> None:
        """`refuse` answers a request, by its ID, that is nested too deeply to be parsed."""
        self._refuse = refuse
        self._stdin = stdin
        self._executor = executor
        self._log = log

    def readline(self) -> Awaitable[bytes]:
        """Read one line of a header."""
        return asyncio.get_running_loop().run_in_executor(self._executor, self._header_line)

    async def readexactly(self, n: int) -> bytes:
        """Read the body of a message. A request that is nested too deeply is answered, and its body is empty."""
        loop = asyncio.get_running_loop()
        body, refused = await loop.run_in_executor(self._executor, self._body, n)
        if refused is None:
            return body
        self._refuse(refused)
        return b"{}"

    def _body(self, size: int) -> tuple[bytes, int | str | None]:
        body = self._stdin.read(size)
        return body, _deep_request(body)

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


def _deep_request(body: bytes) -> int | str | None:
    """The ID of a request that is nested more than `MAX_DEPTH` deep; None for any other message."""
    if body.count(b"[") + body.count(b"{") <= MAX_DEPTH:
        return None
    depth = deepest = 0
    is_request, request_id = False, None
    for token in _TOKEN.finditer(body):
        text = token[0]
        if text in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif text in b"]}":
            depth -= 1
        elif depth == 1 and token["key"] is not None:
            is_request = is_request or token["key"] == b"method"
            if token["key"] == b"id" and (value := _ID.match(body, token.end())) is not None:
                request_id = parse_json(value[0])
    return request_id if is_request and deepest > MAX_DEPTH else None
