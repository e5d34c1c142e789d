"""The head of a record: the prefix that glog prints, and the JSON on its line.

Invariant: the JSON of an event of the timeline is not parsed. A log has many events, and `timeline.py` searches their
bytes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fuselight.shared.foreign_data import parse_json
from fuselight.shared.report.visible import one_line
from fuselight_server.jobs.trace_log import facts
from fuselight_server.jobs.trace_log.facts import BadRecordError
from fuselight_server.jobs.trace_log.model import CompileId
from fuselight_server.jobs.trace_log.records import MAX_HEAD, RawRecord

_ENVELOPE = frozenset(
    {
        "attempt",
        "compiled_autograd_id",
        "frame_compile_id",
        "frame_id",
        "has_payload",
        "lineno",
        "pathname",
        "process",
        "rank",
        "severity",
        "stack",
        "subgraph_name",
        "thread",
        "timestamp",
    }
)
_GLOG = re.compile(
    rb"(?:\[rank\d+\]:)?[VIWEC](?P<time>\d{4} \d\d:\d\d:\d\d\.\d{1,9}) +(?P<process>\d{1,18}) [^\]{]*\] ?"
    rb"(?P<event>\{\"chromium_event\": \{[^{}]*\}(?:, )?)?"
)


@dataclass(slots=True)
class RecordHead:
    """The head of a record: its prefix, and its JSON unless it is an event of the timeline."""

    process: int | None
    time: bytes
    """As it is printed, without year and zone."""
    is_event: bool
    fields: dict[str, Any]
    ids: bytes
    """What an event's head has after its kind."""


def parse_head(raw: RawRecord) -> RecordHead:
    """The head of a record. Raises BadRecordError."""
    line = raw.head
    prefix = _GLOG.match(line)
    if prefix is not None and prefix["event"] and line.endswith(b"}"):
        return RecordHead(
            int(prefix["process"]), prefix["time"], is_event=True, fields={}, ids=line[prefix.end() :]
        )
    start = line.find(b"{") if prefix is None else prefix.end() - len(prefix["event"] or b"")
    if start < 0 or line[start : start + 1] != b"{":
        raise BadRecordError(
            f"the line is longer than {MAX_HEAD} bytes" if not line else "no JSON object on the line"
        )
    process = None if prefix is None else int(prefix["process"])
    time = b"" if prefix is None else prefix["time"]
    if line.startswith(b'{"describe_', start) and line.endswith(b"}"):
        kind = line[start + 2 : line.index(b'"', start + 2)]
        fields: Any = {kind.decode("ascii", "replace"): {}}
        return RecordHead(process, time, is_event=False, fields=fields, ids=b"")
    fields = parse_json(line[start:].decode("utf-8", "replace"))
    if not isinstance(fields, dict):
        raise BadRecordError("the head is not an object")
    return RecordHead(process, time, is_event=False, fields=fields, ids=b"")


def kind_of(fields: Mapping[str, Any]) -> tuple[str, Any]:
    """The name of a record, and what its head says of it. Raises BadRecordError."""
    for key, value in fields.items():
        if key in _ENVELOPE:
            continue
        if key in {"artifact", "graph_dump"} and isinstance(value, dict) and "name" in value:
            return one_line(str(value["name"])), value
        return one_line(key), value
    raise BadRecordError("the head names no kind")


def compile_id_of(fields: Mapping[str, Any]) -> CompileId | None:
    """The compile that a record belongs to; None where its head names none."""
    frame, count = facts.integer(fields.get("frame_id")), facts.integer(fields.get("frame_compile_id"))
    autograd = facts.integer(fields.get("compiled_autograd_id"))
    if autograd is None and (frame is None or count is None):
        return None
    return CompileId(frame, count, autograd)
