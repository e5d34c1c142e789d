"""Finds and reads the snapshots of a job's processes.

Invariant: a file of others is opened as logs are, and unpacked up to a bound. A snapshot that cannot be read is one
note.
"""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from fuselight_server.base.formatting import format_size
from fuselight_server.jobs.memory.analysis import analyze, last_time
from fuselight_server.jobs.memory.model import ProcessMemory, TensorOrigin
from fuselight_server.jobs.memory.snapshot import AllocatorSnapshot, SnapshotError, parse_snapshot
from fuselight_server.jobs.trace_log.files import LogStream, files_below

MAX_FILES = 512
"""Snapshots of a job that are read."""
MAX_UNPACKED = 512 << 20
"""Bytes of a snapshot: a million events have 100 to 200 MB."""
_SAMPLE = 256
_NAME = re.compile(r".*\.(?:pickle|pkl)(?:\.gz)?$")
_RANK = re.compile(r"(?:^|[^a-z0-9])rank[_-]?(\d{1,6})(?!\d)", re.IGNORECASE)
_KEYS = (b"segments", b"device_traces")
_RECORD = '`torch.cuda.memory._record_memory_history(stacks="python")`'


@dataclass(frozen=True)
class ReadMemory:
    """A snapshot that was read, or why it was not."""

    process: ProcessMemory | None
    note: str


def find_snapshots(paths: Sequence[str | os.PathLike[str]]) -> tuple[str, ...]:
    """The snapshots that the paths name or contain, by their first bytes."""
    files = dict.fromkeys(name for path in paths for name in _named(os.fspath(path)) if is_snapshot(name))
    return tuple(itertools.islice(files, MAX_FILES))


def is_snapshot(path: str) -> bool:
    """Whether a file begins as a snapshot does."""
    try:
        with closing(LogStream(path)) as stream:
            start = stream.read(_SAMPLE)
    except OSError:
        return False
    return start.startswith(b"\x80") and any(key in start for key in _KEYS)


def read_memory(path: str) -> ReadMemory:
    """Read a snapshot, and what it shows."""
    try:
        with closing(LogStream(path)) as stream:
            data = _all(stream)
        snapshot = parse_snapshot(data)
        process = ProcessMemory(path, rank_of(path), last_time(snapshot), analyze(snapshot))
    except OSError as error:
        return ReadMemory(None, f"{path}: the snapshot cannot be read: {error.strerror or error}.")
    except (SnapshotError, OverflowError) as error:
        return ReadMemory(None, f"{path}: the snapshot cannot be read: {error}.")
    return ReadMemory(process, _note(process, snapshot))


def rank_of(path: str) -> int | None:
    """The rank in the name of a snapshot, or of its folder."""
    parts = Path(path).parts[-2:]
    match = next((match for part in reversed(parts) if (match := _RANK.search(part))), None)
    return None if match is None else int(match[1])


def _all(stream: LogStream) -> bytes:
    parts, left = [], MAX_UNPACKED + 1
    while left and (part := stream.read(min(left, 1 << 24))):
        parts.append(part)
        left -= len(part)
    if not left:
        raise SnapshotError(
            f"it has more than {format_size(MAX_UNPACKED)}. Record fewer events with `max_entries`, and only Python "
            'frames with `stacks="python"`'
        )
    return b"".join(parts)


def _note(process: ProcessMemory, snapshot: AllocatorSnapshot) -> str:
    """What a snapshot lacks; empty if it has all."""
    if not process.devices:
        return f"{process.file}: the snapshot is empty: the process had allocated nothing on a GPU."
    if not any(device.events for device in process.devices):
        return (
            f"{process.file}: the snapshot has no history, so that only its last state is known. Call {_RECORD} before "
            "the training."
        )
    rows = [
        row for device in process.devices for row in device.peak.held if row.origin is not TensorOrigin.BEFORE
    ]
    if rows and all(row.origin is TensorOrigin.NO_STACK for row in rows):
        return f"{process.file}: the snapshot has no Python stacks, so that nothing has a line. Record with {_RECORD}."
    actions = {event.action for trace in snapshot.traces for event in trace}
    if "alloc" in actions and not actions & {"free_requested", "free_completed"}:
        return (
            f"{process.file}: the snapshot has no record of freed memory: peaks and growth are upper bounds."
        )
    return ""


def _named(path: str) -> list[str]:
    return files_below(path, _NAME, []) if Path(path).is_dir() else [path]
