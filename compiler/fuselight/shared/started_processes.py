"""What `fuselight run` gives the processes that a program starts, and what is recorded of their end.

Invariant: a variable that the user has set is kept: logs then go to the user's folder, and nothing is added to it but
torch's own files, and dumps of its flight recorder.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from fuselight import PACKAGE
from fuselight.shared.codec import DecodeError, decode, encode
from fuselight.shared.foreign_data import parse_json
from fuselight.shared.foreign_files import open_regular, write_whole

TRACE = "TORCH_TRACE"
"""The folder for torch's logs. torch reads it when it is imported."""
RUN = "FUSELIGHT_RUN"
"""Names the run that a process belongs to."""
MEMORY = "FUSELIGHT_MEMORY"
"""The folder for snapshots of the allocator; without it none is recorded."""
ENDS = "ends.json"
_SNAPSHOTS = "memory_*.pickle"
_PATH = "PYTHONPATH"
_LOGS = "dedicated_log_torch_trace_*"
_WRITER = re.compile(rb"[A-Z]\d{4} [\d:.]+ (\d+) ")
WAIT_DUMP = "flight_recorder_rank_"
"""Start of the name of what a rank records while it waits, in the folder for logs, before its number."""
_RECORDER_DUMP = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
_RECORDER_SIZE = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
_RECORDER_ON_TIMEOUT = "TORCH_NCCL_DUMP_ON_TIMEOUT"
_RECORDED_COLLECTIVES = "2000"
_MAX_BYTES = 4 << 20


@dataclass(frozen=True)
class ProcessEnd:
    """How a process ended that its launcher reports as failed."""

    rank: int | None = None
    number: int | None = None
    """Its number among the processes that `torch.multiprocessing.spawn` started."""
    pid: int | None = None
    code: int | None = None
    """The exit code; negative is the signal that ended it. None: not known."""
    error: str = ""
    """Type and message of the exception."""


def startup_folder() -> str:
    """The folder with the module that Python imports at the start of each process."""
    return os.path.join(PACKAGE, "worker", "startup")


def process_variables(base: Mapping[str, str], run: str, name: str = "") -> dict[str, str]:
    """The variables that have a process record itself for a run, in the folder `run` unless the user names one.

    `name`: of the part of the run that starts the process, if several share the folder.
    """
    logs = base.get(TRACE) or run
    paths = [startup_folder(), *filter(None, (base.get(_PATH, ""),))]
    variables = {TRACE: logs, RUN: os.path.join(run, name) if name else run, _PATH: os.pathsep.join(paths)}
    if not any(name in base for name in _RECORDER_DUMP):
        variables[_RECORDER_DUMP[0]] = os.path.join(run, "nccl_trace_rank_")
    if not any(name in base for name in _RECORDER_SIZE):
        variables[_RECORDER_SIZE[0]] = _RECORDED_COLLECTIVES
    if _RECORDER_ON_TIMEOUT not in base:
        variables[_RECORDER_ON_TIMEOUT] = "1"
    return variables


def named_dumps(variables: Mapping[str, str]) -> str:
    """The start of the paths to which the user has torch write dumps of its flight recorder; empty if not named."""
    return next((variables[name] for name in _RECORDER_DUMP if variables.get(name)), "")


def logs_in(folder: str) -> frozenset[str]:
    """The paths of torch's logs in a folder; empty if there is no folder."""
    return frozenset(glob.glob(os.path.join(glob.escape(folder), _LOGS)))


def snapshots_in(folder: str, since: float) -> tuple[str, ...]:
    """The snapshots of the allocator that processes have written to a folder since a time, in seconds of the epoch."""
    paths = sorted(glob.glob(os.path.join(glob.escape(folder), _SNAPSHOTS)))
    return tuple(path for path in paths if os.path.getmtime(path) >= since)


def added_logs(folder: str, before: Collection[str], process: int | None = None) -> tuple[str, ...]:
    """The logs that were added to a folder, without that of `process`, which is recorded in another way."""
    new = sorted(logs_in(folder) - set(before))
    return tuple(path for path in new if process is None or _process_of(path) != process)


def _process_of(path: str) -> int | None:
    """The process that wrote a log, from the beginning of its first record."""
    try:
        with open_regular(path) as file:
            match = _WRITER.match(file.read(200))
    except OSError:
        return None
    return int(match[1]) if match else None


def write_ends(folder: str, ends: Iterable[ProcessEnd]) -> None:
    """Record which processes failed. A disk that is full loses the record, and nothing else."""
    data = json.dumps([encode(end) for end in ends]).encode()
    with contextlib.suppress(OSError):
        write_whole(os.path.join(folder, ENDS), data)


def read_ends(folder: str) -> tuple[ProcessEnd, ...]:
    """The processes that failed; empty if nothing was recorded."""
    try:
        with open_regular(os.path.join(folder, ENDS)) as file:
            data = parse_json(file.read(_MAX_BYTES))
        return tuple(decode(ProcessEnd, item) for item in data)
    except (OSError, ValueError, TypeError, DecodeError, RecursionError):
        return ()
