"""Converts TORCH_TRACE logs to parts of a Report, after the run and without torch.

`torch_texts` parses texts that torch prints both in a log and in an exception.
"""

from __future__ import annotations

from pathlib import Path

from fuselight.trace.events import TraceEvent as TraceEvent
from fuselight.trace.parts import TraceParts as TraceParts
from fuselight.trace.parts import read_parts as read_parts
from fuselight.trace.reader import Stats as Stats
from fuselight.trace.reader import open_log as open_log
from fuselight.trace.reader import read_events as read_events


def read_log(path: Path) -> tuple[TraceParts, Stats]:
    """The parts and the counts of one log file, plain or gzipped. Raises OSError."""
    stats = Stats()
    return read_parts(read_events(open_log(path), stats)), stats
