"""Converts an exported torch.profiler trace to events.

Invariant: no device event is dropped, whatever its name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

from fuselight.measure.profile import torch_records
from fuselight.measure.profile.recording import Event, EventKind, Window

_KINDS = {
    "kernel": EventKind.KERNEL,
    "gpu_memcpy": EventKind.COPY,
    "gpu_memset": EventKind.COPY,
    "cuda_runtime": EventKind.RUNTIME,
    "cuda_driver": EventKind.RUNTIME,
    "cpu_op": EventKind.OPERATOR,
    "user_annotation": EventKind.ANNOTATION,
}


def read_trace(text: str) -> tuple[Event, ...]:
    """The events of an exported trace in order of time, outer events before inner ones.

    Raises ValueError if the text is not a trace.
    """
    trace = json.loads(text, parse_float=str, parse_int=str)  # microseconds with three digits: exact as text
    found = trace.get("traceEvents") if isinstance(trace, dict) else None
    if not isinstance(found, list):
        raise ValueError("it holds no traceEvents")  # noqa: TRY004 - the text is what is wrong
    return tuple(sorted(_events(found), key=lambda event: (event.start_ns, -event.ns)))


def _events(found: list[Any]) -> Iterator[Event]:
    for one in found:
        kind = _KINDS.get(one.get("cat", "")) if isinstance(one, dict) and one.get("ph") == "X" else None
        if kind is None:
            continue
        arguments = one.get("args") or {}
        on_device = kind in {EventKind.KERNEL, EventKind.COPY}
        yield Event(
            name=one["name"],
            kind=kind,
            start_ns=_nanoseconds(one["ts"]),
            ns=_nanoseconds(one.get("dur", "0")),
            thread=_number(arguments.get("stream") if on_device else one.get("tid")) or 0,
            correlation=_number(arguments.get("correlation")),
            sequence=_number(arguments.get("Sequence number")),
        )


def _nanoseconds(text: str) -> int:
    """Convert microseconds as text, `12` or `12.345`."""
    whole, _, part = text.partition(".")
    if not whole.isdigit() or not (part or "0").isdigit():
        return round(float(text) * 1000)  # exponent notation
    return int(whole) * 1000 + int(part[:3].ljust(3, "0"))


def _number(text: Any) -> int | None:
    return int(text) if isinstance(text, str) and text.lstrip("-").isdigit() else None


def read_windows(events: tuple[Event, ...]) -> tuple[Window, ...]:
    """The profiled calls in order of time: device work before the next call belongs to the current one."""
    marks = [
        event for event in events if event.kind is EventKind.ANNOTATION and event.name == torch_records.CALL
    ]
    windows, at = [], 0
    work = [event for event in events if event.on_device]
    for mark, later in zip_longest(marks, marks[1:]):
        limit = None if later is None else later.start_ns
        end = mark.end_ns
        while at < len(work) and (limit is None or work[at].start_ns < limit):
            if work[at].start_ns >= mark.start_ns:
                end = max(end, work[at].end_ns)
            at += 1
        windows.append(Window(mark.start_ns, end if limit is None else min(end, limit), mark.thread))
    return tuple(windows)
