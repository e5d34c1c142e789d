"""TORCH_TRACE logs to parts of a Report, after the fact and without torch.

`reasons` and `sources` read the texts that torch prints in a log and in a live exception alike.
"""

from __future__ import annotations

from pathlib import Path

from fuselight.trace.events import Event
from fuselight.trace.parts import TraceParts, read_parts
from fuselight.trace.reader import Stats, open_log, read_events

__all__ = ["Event", "Stats", "TraceParts", "open_log", "read_events", "read_log", "read_parts"]


def read_log(path: Path) -> tuple[TraceParts, Stats]:
    """The parts and the counts of one log file, plain or gzipped. Raises OSError."""
    stats = Stats()
    return read_parts(read_events(open_log(path), stats)), stats
