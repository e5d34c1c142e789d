"""Ranks that a launcher started, each under a `fuselight run` of its own: they share a folder, and one prints for all.

Invariant: nobody waits for a rank that is gone, or longer than `_JOINING` for one that has not registered in the
folder. Ranks of other machines are not part of it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fuselight.shared.codec import DecodeError, decode, encode
from fuselight.shared.foreign_data import parse_json
from fuselight.shared.foreign_files import open_regular, write_whole
from fuselight.shared.owned_folders import is_alive, shared_folder
from fuselight.shared.started_processes import ProcessEnd

_RUN_ID = "TORCHELASTIC_RUN_ID"
_KEYS = (_RUN_ID, "TORCHELASTIC_RESTART_COUNT", "MASTER_ADDR", "MASTER_PORT")
_MAX_BYTES = 1 << 16
_LOOK_EVERY = 0.1
_JOINING = 10.0
"""Seconds after the start of a rank in which others of its machine may still start: a program can end before."""


@dataclass(frozen=True)
class LaunchedRank:
    """What a launcher tells a rank in its variables."""

    rank: int
    world_size: int
    local_rank: int
    local_size: int
    """Ranks on this machine; 0 if the launcher names none."""

    @property
    def shares_folder(self) -> bool:
        """Whether other ranks of the same launcher run on this machine."""
        return self.local_size > 1

    @property
    def label(self) -> str:
        """`rank 3`."""
        return f"rank {self.rank}"


@dataclass(frozen=True)
class RegisteredRank:
    """A rank as it registers itself in the shared folder."""

    rank: int
    local_rank: int
    watcher: int
    """Process ID of its `fuselight run`."""
    has_ended: bool = False
    program: int | None = None
    code: int | None = None


def launched_rank(variables: Mapping[str, str]) -> LaunchedRank | None:
    """The rank that these variables name; None for a program that is not one of several ranks."""
    rank, size = _number(variables, "RANK"), _number(variables, "WORLD_SIZE")
    if rank is None or size is None or size < 2:  # noqa: PLR2004 - one rank is a program as any other
        return None
    local_rank, local_size = _number(variables, "LOCAL_RANK"), _number(variables, "LOCAL_WORLD_SIZE")
    if local_rank is None or local_size is None or _RUN_ID not in variables:
        return LaunchedRank(rank, size, 0, 0)
    return LaunchedRank(rank, size, local_rank, local_size)


def _number(variables: Mapping[str, str], name: str) -> int | None:
    text = variables.get(name, "")
    return int(text) if text.isdecimal() and len(text) < 10 else None  # noqa: PLR2004 - no job has a billion ranks


class SharedRun:
    """The shared folder of the ranks of one launcher on this machine, as one of them sees it."""

    def __init__(self, launched: LaunchedRank, variables: Mapping[str, str]) -> None:
        """Register this rank. Raises OSError."""
        launcher = os.getppid()
        text = "\n".join([*(variables.get(name, "") for name in _KEYS), _start_of(launcher)])
        key = hashlib.sha256(text.encode()).hexdigest()[:16]
        self._launched = launched
        self._joining_ends = time.monotonic() + _JOINING
        self.folder = shared_folder("ranks", launcher, key)
        self._register(RegisteredRank(launched.rank, launched.local_rank, os.getpid()))

    def end(self, program: int, code: int) -> None:
        """Record how the program of this rank has ended, if the folder is still there."""
        ended = RegisteredRank(
            self._launched.rank,
            self._launched.local_rank,
            os.getpid(),
            has_ended=True,
            program=program,
            code=code,
        )
        with contextlib.suppress(OSError):
            self._register(ended)

    @property
    def prints(self) -> bool:
        """Whether this rank prints for all: the first one that shares the folder and is not killed."""
        able = [rank.local_rank for rank in self.ranks() if rank.has_ended or is_alive(rank.watcher)]
        return bool(able) and self._launched.local_rank == able[0]

    def wait(self) -> None:
        """Wait until the others have ended, are gone, or a signal asks this process to end."""
        stops: list[int] = []
        for name in ("SIGTERM", "SIGHUP", "SIGINT"):
            if hasattr(signal, name):
                signal.signal(getattr(signal, name), lambda number, _frame: stops.append(number))
        while not stops and self._is_awaited(self.ranks()):
            time.sleep(_LOOK_EVERY)

    def _is_awaited(self, ranks: Sequence[RegisteredRank]) -> bool:
        """Whether one of the ranks runs, or is about to start."""
        if any(not rank.has_ended and is_alive(rank.watcher) for rank in ranks):
            return True
        return len(ranks) < self._launched.local_size and time.monotonic() < self._joining_ends

    def ends(self) -> tuple[ProcessEnd, ...]:
        """The ranks that failed."""
        return tuple(
            ProcessEnd(rank=rank.rank, pid=rank.program, code=rank.code)
            for rank in self.ranks()
            if rank.has_ended and rank.code != 0
        )

    def ranks(self) -> list[RegisteredRank]:
        """Those that share the folder, by their number on this machine."""
        return sorted(self._registered(), key=lambda rank: rank.local_rank)

    def remove(self) -> None:
        """Delete the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def _register(self, rank: RegisteredRank) -> None:
        write_whole(Path(self.folder, f"rank-{rank.local_rank}.json"), json.dumps(encode(rank)).encode())

    def _registered(self) -> Iterator[RegisteredRank]:
        for path in Path(self.folder).glob("rank-*.json"):
            with contextlib.suppress(OSError, ValueError, DecodeError), open_regular(path) as file:
                yield decode(RegisteredRank, parse_json(file.read(_MAX_BYTES)))


def _start_of(process: int) -> str:
    """When a process started, in the system's own unit: its number can be used again. Empty if not known."""
    with contextlib.suppress(OSError, IndexError):
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    return ""
