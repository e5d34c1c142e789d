"""Reads a TORCH_TRACE log as a stream of events.

A record is a glog line (`V1120 23:31:51.1 18424 torch/x.py:1] {json}`); its payload follows, each line indented by
one tab.
Invariant: any bytes are read to their end without an exception. A bad record is skipped and counted with its position,
unknown kinds are kept by name, and no record takes more memory than the bounds below.
"""

from __future__ import annotations

import collections
import gzip
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.torch_trace.events import READERS, BadRecord, Fact, Strings, TraceEvent, Unread

MAX_LINE = 8 << 20
MAX_PAYLOAD = 32 << 20
"""Bytes; a graph of a very large model prints in a few megabytes."""
MAX_STRINGS = 100_000
_SKIPPED_KEPT = 100
_ENVELOPE = {
    "attempt",
    "compiled_autograd_id",
    "frame_compile_id",
    "frame_id",
    "has_payload",
    "lineno",
    "pathname",
    "process",
    "rank",
    "stack",
    "thread",
    "timestamp",
}


@dataclass
class Stats:
    """Counts of the records that were read and skipped."""

    records: int = 0
    kinds: collections.Counter[str] = field(default_factory=collections.Counter)
    unread: collections.Counter[str] = field(default_factory=collections.Counter)
    skipped: int = 0
    skips: list[tuple[int, str]] = field(default_factory=list)
    """Line and cause of the first hundred records that were skipped."""

    def skip(self, line: int, why: str) -> None:
        """Count a record that cannot be read."""
        self.skipped += 1
        if len(self.skips) < _SKIPPED_KEPT:
            self.skips.append((line, why))


@dataclass
class _Record:
    line: int
    header: str
    payload: list[str] = field(default_factory=list)
    size: int = 0
    too_large: bool = False

    def add(self, text: str) -> None:
        self.size += len(text) + 1
        if self.size > MAX_PAYLOAD:
            self.too_large = True
            self.payload.clear()
        else:
            self.payload.append(text)


def open_log(path: Path) -> Iterator[bytes]:
    """The lines of a log file, plain or gzipped, each at most MAX_LINE long. Raises OSError."""
    with closing(gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb")) as stream:
        yield from bounded_lines(stream)


def bounded_lines(stream: io.BufferedIOBase | gzip.GzipFile | Any) -> Iterator[bytes]:
    """Lines of a byte stream; of a longer line than MAX_LINE only the start, which then fails to parse."""
    while line := stream.readline(MAX_LINE):
        if len(line) == MAX_LINE and not line.endswith(b"\n"):
            while (rest := stream.readline(MAX_LINE)) and not rest.endswith(b"\n"):
                pass
        yield line


def read_events(lines: Iterable[bytes], stats: Stats) -> Iterator[TraceEvent]:
    """The events of a log, in order; counts them in `stats`."""
    strings = Strings()
    record: _Record | None = None
    for number, raw in enumerate(lines, 1):
        text = raw.decode("utf-8", "replace").rstrip("\r\n")
        if text.startswith("\t"):
            if record is None:
                stats.skip(number, "a payload without a record")
            else:
                record.add(text[1:])
            continue
        if record is not None:
            yield from _finish(record, strings, stats)
        record = _Record(number, text) if text else None
    if record is not None:
        yield from _finish(record, strings, stats)


def _finish(record: _Record, strings: Strings, stats: Stats) -> Iterator[TraceEvent]:
    stats.records += 1
    try:
        event = _read(record, strings, stats)
    except (BadRecord, ValueError, RecursionError, OverflowError) as error:
        stats.skip(record.line, str(error) or type(error).__name__)
        return
    if event is not None:
        yield event


def _read(record: _Record, strings: Strings, stats: Stats) -> TraceEvent | None:
    start = record.header.find("{")
    if start < 0:
        raise BadRecord("no JSON object on the line")
    header = json.loads(record.header[start:])
    if not isinstance(header, dict):
        raise BadRecord("the header is not an object")
    if "str" in header:
        _intern(header["str"], strings)
        stats.kinds["str"] += 1
        return None
    kind, value = _kind_of(header)
    stats.kinds[kind] += 1
    if record.too_large:
        raise BadRecord(f"the payload of {kind} is larger than {MAX_PAYLOAD} bytes")
    reader = _READER_OF.get(kind)
    fact: Fact = Unread(kind) if reader is None else reader(value, "\n".join(record.payload), strings)
    if isinstance(fact, Unread):
        stats.unread[fact.kind] += 1
    return TraceEvent(
        record.line, fact, _compile_id(header), _integer(header.get("attempt")), _integer(header.get("rank"))
    )


_READER_OF = dict(READERS)


def _intern(value: object, strings: Strings) -> None:
    if not isinstance(value, list) or len(value) != 2 or type(value[1]) is not int:
        raise BadRecord("an interned string is a pair")
    if len(strings.names) >= MAX_STRINGS:
        raise BadRecord("too many interned strings")
    strings.names[value[1]] = str(value[0])


def _kind_of(header: Mapping[str, Any]) -> tuple[str, Any]:
    for key, value in header.items():
        if key in _ENVELOPE:
            continue
        if key == "artifact" and isinstance(value, Mapping):
            return f"artifact:{value.get('name')}", value
        return key, value
    raise BadRecord("the header names no kind")


def _compile_id(header: Mapping[str, Any]) -> str | None:
    frame, attempt = _integer(header.get("frame_id")), _integer(header.get("frame_compile_id"))
    autograd = _integer(header.get("compiled_autograd_id"))
    if frame is None or attempt is None:
        return None if autograd is None else f"[{autograd}/-/-]"
    return f"{frame}/{attempt}" if autograd is None else f"[{autograd}/{frame}/{attempt}]"


def _integer(value: object) -> int | None:
    return value if type(value) is int else None
