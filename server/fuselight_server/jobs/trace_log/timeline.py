"""The events of a process's timeline: its phases, and when its clock shows which time.

Invariant: a phase that has not ended has no end. The bytes of an event are searched, which is faster than to parse its
JSON; only an event whose fields stand in another order is parsed.
"""

from __future__ import annotations

import functools
import re
from datetime import datetime, timedelta, timezone
from typing import Any

from fuselight.shared.foreign_data import parse_json
from fuselight.shared.report.visible import one_line
from fuselight_server.jobs.trace_log import facts
from fuselight_server.jobs.trace_log.budget import ProcessBudget
from fuselight_server.jobs.trace_log.facts import BadRecordError
from fuselight_server.jobs.trace_log.heads import RecordHead, compile_id_of
from fuselight_server.jobs.trace_log.model import CompileId, TimelinePhase

_START = re.compile(rb'"name": ("(?:[^"\\]|\\.)*"),\s+"ts": ([\d.e+]+)')
_LATEST = 2.0**36
"""In seconds since the epoch, in two thousand years."""
_KIND = re.compile(rb'"ph": "(\w)"')
_COMPILE = re.compile(rb'"compile_id": "(?:!(\d{1,18})/?)?(?:(\d{1,18})/(\d{1,18}))?(?:_\d+)?"')


class Timeline:
    """The phases of one process, read up to now."""

    def __init__(self, budget: ProcessBudget) -> None:
        """`budget` decides which phases are kept."""
        self._budget = budget
        self._phases: list[TimelinePhase] = []
        self._open: list[int] = []
        """Indices of the phases that have started and not ended."""
        self._clock: tuple[bytes, float] | None = None
        """A printed time, and the same in seconds since the epoch."""

    def add_event(self, head: RecordHead, payload: bytes) -> None:
        """Take in an event. Raises ValueError and the like for one that cannot be read."""
        start = _START.search(payload, 0, 2_000)
        kind = _KIND.search(payload, max(0, len(payload) - 200)) or _KIND.search(payload)
        if start is None or kind is None:
            self._add_odd(payload)
            return
        name = _unquoted(start[1])
        time = _seconds_of(start[2])
        if self._clock is None and head.time:
            self._clock = (head.time, time)
        if kind[1] == b"B":
            self._start_phase(name, time, _compile_of(head.ids, payload))
        elif kind[1] == b"E":
            self._end_phase(name, time)

    def _add_odd(self, payload: bytes) -> None:
        """An event whose fields stand in another order."""
        event = facts.mapping(parse_json(payload))
        name, kind = one_line(str(event.get("name"))), event.get("ph")
        if kind == "B":
            self._start_phase(name, _seconds_of(event.get("ts")), None)
        elif kind == "E":
            self._end_phase(name, _seconds_of(event.get("ts")))

    def _start_phase(self, name: str, time: float, compile_id: CompileId | None) -> None:
        if self._budget.keeps("phases", 0):
            self._phases.append(TimelinePhase(name, time, None, len(self._open), compile_id))
            self._open.append(len(self._phases) - 1)

    def _end_phase(self, name: str, time: float) -> None:
        for position in range(len(self._open) - 1, -1, -1):
            index = self._open[position]
            if self._phases[index].name == name:
                phase = self._phases[index]
                self._phases[index] = TimelinePhase(name, phase.start, time, phase.depth, phase.compile_id)
                del self._open[position]
                return

    def phases(self) -> tuple[TimelinePhase, ...]:
        """In order of their start."""
        return tuple(sorted(self._phases, key=lambda phase: (phase.start, phase.depth)))

    def seconds(self, printed: bytes) -> float | None:
        """A printed time in seconds since the epoch: an event with both times gives year and zone."""
        if self._clock is None or not printed:
            return None
        moment, start = _moment(printed), _moment(self._clock[0])
        if moment is None or start is None:
            return None
        passed = (moment - start).total_seconds()
        half_a_year = timedelta(days=183).total_seconds()
        if passed < -half_a_year:
            passed += timedelta(days=366).total_seconds()
        return self._clock[1] + passed


def _seconds_of(microseconds: Any) -> float:
    """The time of an event. Raises BadRecordError for what is not a time."""
    seconds = float(microseconds) / 1e6
    if not 0 <= seconds < _LATEST:
        raise BadRecordError("the time of an event is not a time")
    return seconds


def _moment(printed: bytes) -> datetime | None:
    try:
        text = printed.decode("ascii")[:20]
        return datetime.strptime(f"2000{text}", "%Y%m%d %H:%M:%S.%f").replace(tzinfo=timezone.utc)
    except ValueError:
        return None


@functools.lru_cache(maxsize=1024)
def _unquoted(quoted: bytes) -> str:
    return one_line(str(parse_json(quoted.decode("utf-8", "replace"))))


def _compile_of(ids: bytes, payload: bytes) -> CompileId | None:
    """The compile of an event: the head's, or its own field where the head has none, as while a backward compiles."""
    compile_id = _id_of_head(ids.partition(b', "has_payload"')[0])
    if compile_id is not None:
        return compile_id
    match = _COMPILE.search(payload, 0, 4_000)
    return None if match is None else _id_of_event(match[2], match[3], match[1])


@functools.lru_cache(maxsize=1024)
def _id_of_head(ids: bytes) -> CompileId | None:
    try:
        return compile_id_of(parse_json(b"{" + ids.removesuffix(b"}") + b"}"))
    except ValueError:
        return None


@functools.lru_cache(maxsize=1024)
def _id_of_event(frame: bytes | None, count: bytes | None, autograd: bytes | None) -> CompileId | None:
    numbers = [None if part is None else int(part) for part in (frame, count, autograd)]
    return CompileId(*numbers) if any(number is not None for number in numbers) else None
