"""Reads the long texts of a log on demand.

Packed files have no random access: reading payloads in the order of their offsets unpacks the file once, which
`read_texts` does. Nothing is unpacked to disk.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from fuselight_server.jobs.trace_log import facts
from fuselight_server.jobs.trace_log.files import LogError, LogStream
from fuselight_server.jobs.trace_log.records import MAX_PAYLOAD

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from fuselight_server.jobs.trace_log.model import CacheComponent, CacheEvent, CompileMetrics, Payload


def text_of(data: bytes) -> str:
    """A payload without the tabs that indent it."""
    return data.removeprefix(b"\t").replace(b"\n\t", b"\n").decode("utf-8", "replace")


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
    """Every field of torch's metrics. Raises LogError."""
    return next(read_all_metrics([metrics.head]))[1]


def read_all_metrics(heads: Iterable[Payload]) -> Iterator[tuple[Payload, Mapping[str, Any]]]:
    """Every field of torch's metrics of many compiles, by their heads, in the order of the log. Raises LogError."""
    for head, data in _read(heads):
        try:
            record = json.loads(data[data.index(b"{") :])
            yield head, dict(next(iter(record.values())))
        except (ValueError, TypeError, StopIteration, RecursionError):
            raise LogError(f"`{head.file}` has changed since it was read. Open the job again.") from None
