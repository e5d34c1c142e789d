"""Frames on a pipe: 4 bytes `FLs1`, the payload's length, its CRC-32, then the payload, one JSON object in UTF-8.

Invariant: whatever the bytes are, a reader yields exactly the payloads that were framed or raises `WireError`. It
never waits for more than one frame announces, and never allocates for a length that nobody may send.
"""

from __future__ import annotations

import functools
import json
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import Any


def _bound_writer() -> Callable[[Any], str]:
    """`json.dumps` of compact text, of C functions alone: user code may replace methods of Python's encoder, too."""
    make: Any = json.encoder.c_make_encoder  # type: ignore[attr-defined] # typeshed leaves out what is private
    quote: Any = json.encoder.encode_basestring_ascii
    if make is None:  # a Python without it
        return functools.partial(json.dumps, separators=(",", ":"))
    write = make(None, _refuse, quote, None, ":", ",", False, False, True)  # noqa: FBT003 - its one form
    join = "".join
    return lambda data: join(write(data, 0))


def _refuse(value: object) -> Any:
    raise TypeError(f"Object of type {type(value).__name__} is not JSON serializable")


_write = _bound_writer()

MAGIC = b"FLs1"
HEADER = struct.Struct(">4sII")
MAX_FRAME = 256 * 1024 * 1024
"""Bytes. A report of 50 MB must pass; a damaged length must not make the reader wait for gigabytes."""


class WireError(Exception):
    """The stream is damaged: nothing that follows can be trusted."""


def frame(payload: bytes) -> bytes:
    """Wrap one payload. Raises WireError for a payload above MAX_FRAME bytes."""
    if len(payload) > MAX_FRAME:
        raise WireError(f"a message of {len(payload)} bytes is above the limit of {MAX_FRAME}")
    return HEADER.pack(MAGIC, len(payload), zlib.crc32(payload)) + payload


def dump(data: Any) -> bytes:
    """Write one JSON object as a payload; lone surrogates, as in undecodable paths, survive as escapes."""
    return _write(data).encode("ascii")


def load(payload: bytes) -> Any:
    """Read a payload's JSON. Raises WireError."""
    try:
        return json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise WireError(f"a message is not JSON: {error}") from None


class FrameReader:
    """Cuts a stream into payloads. Feed it bytes as they come; call `end` when the stream ends."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._read = 0

    def feed(self, data: bytes) -> Iterator[bytes]:
        """Give the payloads that `data` completes, those before a damage too. Raises WireError when it comes to one."""
        self._buffer += data
        while (payload := self._next()) is not None:
            yield payload

    def end(self) -> None:
        """Raise WireError if the stream ended inside a frame."""
        if self._buffer:
            raise WireError(f"the stream ended inside a message, {len(self._buffer)} bytes into it")

    def _next(self) -> bytes | None:
        start = bytes(self._buffer[: len(MAGIC)])
        if not MAGIC.startswith(start):
            raise WireError(f"expected a message at byte {self._read}, found {start!r}")
        if len(self._buffer) < HEADER.size:
            return None
        _, length, checksum = HEADER.unpack_from(self._buffer)
        if length > MAX_FRAME:
            raise WireError(
                f"a message at byte {self._read} claims {length} bytes, above the limit of {MAX_FRAME}"
            )
        end = HEADER.size + length
        if len(self._buffer) < end:
            return None
        payload = bytes(self._buffer[HEADER.size : end])
        del self._buffer[:end]
        if zlib.crc32(payload) != checksum:
            raise WireError(f"the message at byte {self._read} is damaged: its checksum does not match")
        self._read += end
        return payload
