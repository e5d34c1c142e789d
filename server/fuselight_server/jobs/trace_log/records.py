"""Splits the bytes of a log into records.

A record is a glog line (`V1120 23:31:51.1 18424 torch/x.py:1] {json}`); its payload follows, each line indented by one
tab. Invariant: any bytes are split to their end without an exception and in bounded memory. Payloads are found by their
tabs alone and are not decoded. A line may end in CR LF: a log that was copied as text from Windows is the same log.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_HEAD = 8 << 20
"""Bytes of the line of a record; torch's metrics take 40 kB."""
MAX_PAYLOAD = 32 << 20
"""Bytes of a payload that are looked at; a graph of a very large model prints in a few megabytes."""
_START = re.compile(rb"\n(?=[^\t])")
_LINE_FEED, _RETURN = b"\n\r"


@dataclass(slots=True)
class RawRecord:
    """One record: its line, and the position of its payload."""

    offset: int
    head: bytes
    """Without its line break; empty if the line is longer than MAX_HEAD."""
    payload: bytes
    """As it stands in the log, with its tabs; empty if it is larger than MAX_PAYLOAD."""
    payload_offset: int
    payload_length: int
    is_ended: bool = True
    """Whether the log has the line break after the record."""


class RecordSplitter:
    """Takes the bytes of a log in order, and gives its records: each when the next one starts."""

    def __init__(self) -> None:
        """For a log that is read from its start."""
        self._data = b""
        self._base = 0
        """Offset in the log of the first byte of `_data`, which starts a record."""
        self._scanned = 0
        self._dropped: RawRecord | None = None
        """A record that is too large to keep, while the rest of it is passed."""

    def feed(self, chunk: bytes) -> Iterator[RawRecord]:
        """The records that end in the bytes that are known by now."""
        data = self._data + chunk if self._data else chunk
        start = 0
        for match in _START.finditer(data, self._scanned):
            end = match.end()
            yield self._record(data, start, end)
            start = end
        self._data = data[start:] if start else data
        self._base += start
        self._scanned = max(len(self._data) - 1, 0)
        self._limit()

    def last_record(self) -> Iterator[RawRecord]:
        """The last record."""
        if self._data or self._dropped is not None:
            record = self._record(self._data, 0, len(self._data))
            record.is_ended = self._data.endswith(b"\n")
            self._base += len(self._data)
            self._data, self._scanned = b"", 0
            yield record

    def _record(self, data: bytes, start: int, end: int) -> RawRecord:
        dropped, self._dropped = self._dropped, None
        if dropped is not None:
            dropped.payload_length += end - start
            return dropped
        line_end = data.find(b"\n", start, end)
        if line_end < 0:
            line_end = end
        payload_start = min(line_end + 1, end)
        payload_end = _without_line_end(data, payload_start, end)
        line_end = _without_return(data, start, line_end)
        length = payload_end - payload_start
        return RawRecord(
            self._base + start,
            data[start:line_end] if line_end - start <= MAX_HEAD else b"",
            data[payload_start:payload_end] if length <= MAX_PAYLOAD else b"",
            self._base + payload_start,
            length,
        )

    def _limit(self) -> None:
        """Keep no more of an unfinished record than its line."""
        if self._dropped is None and len(self._data) <= MAX_HEAD + MAX_PAYLOAD:
            return
        if self._dropped is None:
            self._dropped = self._record(self._data, 0, len(self._data))
            self._dropped.payload = b""
        else:
            self._dropped.payload_length += max(len(self._data) - 1, 0)
        kept = self._data[-1:]
        """The next chunk decides whether a line break at the end starts a record."""
        self._base += len(self._data) - len(kept)
        self._data, self._scanned = kept, 0


def _without_line_end(data: bytes, start: int, end: int) -> int:
    """The end of a text without the line break at its end."""
    if end > start and data[end - 1] == _LINE_FEED:
        return _without_return(data, start, end - 1)
    return end


def _without_return(data: bytes, start: int, end: int) -> int:
    return end - 1 if end > start and data[end - 1] == _RETURN else end
