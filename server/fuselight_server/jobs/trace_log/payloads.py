"""Reads the long texts of a log on demand.

Packed files have no random access: reading payloads in the order of their offsets unpacks the file once, which
`read_texts` does. Nothing is unpacked to disk.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fuselight_server.jobs.trace_log import facts
from fuselight_server.jobs.trace_log.files import LogError, LogStream
from fuselight_server.jobs.trace_log.heads import kind_of, parse_head
from fuselight_server.jobs.trace_log.model import CacheComponent, CacheEvent, CompileMetrics, Payload
from fuselight_server.jobs.trace_log.records import MAX_PAYLOAD, RawRecord


def text_of(data: bytes) -> str:
    """A payload without the tabs that indent it, and with the line ends that torch wrote."""
    return data.replace(b"\r\n", b"\n").removeprefix(b"\t").replace(b"\n\t", b"\n").decode("utf-8", "replace")


def read_text(payload: Payload) -> str:
    """The text of a payload, at most 32 MB of it. Raises LogError if the log is gone or is cut."""
    return next(read_texts([payload]))[1]


def read_texts(payloads: Iterable[Payload]) -> Iterator[tuple[Payload, str]]:
    """Payloads with their texts, in the order of files and offsets. Raises LogError."""
    for payload, data in _read(payloads):
        yield payload, text_of(data)


def _read(payloads: Iterable[Payload]) -> Iterator[tuple[Payload, bytes]]:
    stream, path = None, ""
    try:
        for payload in sorted(payloads, key=lambda item: (item.file, item.offset)):
            if stream is None or path != payload.file:
                if stream is not None:
                    stream.close()
                stream, path = LogStream(payload.file), payload.file
            stream.seek(payload.offset)
            data = stream.read(min(payload.length, MAX_PAYLOAD))
            if len(data) < min(payload.length, MAX_PAYLOAD):
                raise LogError(f"`{path}` is shorter than when it was read. Open the job again.")
            yield payload, data
    except OSError as error:
        raise LogError(f"`{path}` cannot be read: {error.strerror or error}. Open the job again.") from None
    finally:
        if stream is not None:
            stream.close()


def read_components(event: CacheEvent) -> tuple[CacheComponent, ...] | None:
    """The factors of the key of a cache event; None if the log does not list them. Raises LogError."""
    return None if event.components is None else facts.read_components(read_text(event.payload))


def read_metrics(metrics: CompileMetrics) -> Mapping[str, Any]:
    """Every field of torch's metrics; none if the record is damaged. Raises LogError."""
    return next((fields for _, fields in read_all_metrics([metrics.head])), {})


def read_all_metrics(heads: Iterable[Payload]) -> Iterator[tuple[Payload, Mapping[str, Any]]]:
    """Every field of torch's metrics of many compiles, by their heads, in the order of the log. Raises LogError.

    A head is read as it was the first time. One that cannot be read is left out: nothing else depends on it.
    """
    for head, data in _read(heads):
        with contextlib.suppress(ValueError, RecursionError):
            _, value = kind_of(parse_head(RawRecord(head.offset, data, b"", head.offset, 0)).fields)
            if isinstance(value, dict):
                yield head, value
