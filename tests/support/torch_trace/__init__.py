"""Converts TORCH_TRACE logs to parts of a Report: what torch itself recorded, to compare findings with.

`torch_texts` parses texts that torch prints both in a log and in an exception.
"""

from __future__ import annotations

from pathlib import Path

from tests.support.torch_trace.events import TraceEvent as TraceEvent
from tests.support.torch_trace.parts import TraceParts as TraceParts
from tests.support.torch_trace.parts import read_parts as read_parts
from tests.support.torch_trace.reader import Stats as Stats
from tests.support.torch_trace.reader import open_log as open_log
from tests.support.torch_trace.reader import read_events as read_events


def read_log(path: Path) -> tuple[TraceParts, Stats]:
    """The parts and the counts of one log file, plain or gzipped. Raises OSError."""
    stats = Stats()
    return read_parts(read_events(open_log(path), stats)), stats
