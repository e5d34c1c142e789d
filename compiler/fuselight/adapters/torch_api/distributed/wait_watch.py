"""Writes torch's flight recorder while a rank waits in a collective, and where the other ranks are meanwhile.

NCCL writes dumps at its timeout; gloo records as well, and writes none. A thread looks once a second, since the main
thread of a rank that waits runs no Python. Ranks of one machine see each other's waits by files in the run's folder.
Invariant: the program is as without it: nothing of torch is replaced, and an exception here ends the thread alone. A
dump is left only of a rank that still waits, or that ended by an exception while it did, and of ranks that run with it.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import multiprocessing
import multiprocessing.util
import os
import pickle
import re
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from fuselight.shared.foreign_files import write_whole
from fuselight.shared.started_processes import RUN, TRACE, WAIT_DUMP

_EVERY = 1.0
WAITS_AFTER = 3.0
"""Seconds without progress after which a rank counts as waiting."""
_KEPT = 5.0
"""Seconds for which its dump stays after the collective has ended: with a timeout, an exception ends the process."""
_JUST_NOW = 2 * _EVERY
_MAX_FRAMES = 100
_MAX_ACTIVE = 50
_C10D = os.path.join("torch", "distributed", "distributed_c10d.py")
_OF_CALLS = (_C10D, os.path.join("torch", "distributed", "c10d_logger.py"))
_OF_TRANSPORT = re.compile(r"gloo/transport|Connection (?:closed|reset)|Timed out waiting|ncclRemoteError")
"""In exceptions of a collective in which another rank does not take part."""
_WAITS, _ENDED = "waits-", "ended-"

_started: dict[int, WaitWatch] = {}
"""By process: a fork does not have the thread of its parent."""


def watch_waits() -> None:
    """Start the thread, once this process has a process group. To be called often."""
    process = os.getpid()
    distributed: Any = sys.modules.get("torch.distributed")
    if process in _started or RUN not in os.environ or distributed is None:
        return
    if not distributed.is_available() or not distributed.is_initialized() or distributed.get_world_size() < 2:  # noqa: PLR2004 - alone
        return
    run, logs = os.environ[RUN], os.environ.get(TRACE, "")
    folder = run if os.path.isdir(run) else os.path.dirname(run)
    watch = _started[process] = WaitWatch(distributed.get_rank(), logs or folder, folder)
    atexit.register(watch.end)
    if (
        multiprocessing.parent_process() is not None
    ):  # a fork ends without atexit, and this sees the exception
        multiprocessing.util.Finalize(None, watch.end, exitpriority=100)
    threading.Thread(target=watch.run, name="fuselight-waits", daemon=True).start()


def recorder_progress() -> dict[str, tuple[int, int]]:
    """The last collectives that each process group has begun and ended; empty without a recorder."""
    dump = getattr(_c10d(), "_dump_fr_trace_json", None)
    if dump is None:
        return {}
    status = json.loads(dump(False, False)).get("pg_status") or {}  # noqa: FBT003 - torch takes them by position
    return {
        str(group): (int(item["last_enqueued_collective"]), int(item["last_completed_collective"]))
        for group, item in status.items()
    }


def recorder_dump() -> dict[str, Any]:
    """What the recorder has of collectives that have not ended, and the last one of each process group."""
    dump = getattr(_c10d(), "_dump_fr_trace", None)
    if dump is None:
        return {"version": "", "entries": [], "pg_config": {}}
    body = pickle.loads(dump(True, True, False))  # noqa: S301, FBT003 - torch made it in this process
    kept = {}
    active = []
    for entry in body.get("entries", ()):
        kept[tuple(entry.get("process_group") or ())] = entry
        if not (entry.get("retired") or entry.get("state") == "completed"):
            active.append(entry)
    entries = [*active[:_MAX_ACTIVE], *(entry for entry in kept.values() if entry not in active)]
    entries.sort(key=lambda entry: int(entry.get("record_id", 0)))
    return {"version": body.get("version", ""), "entries": entries, "pg_config": _members()}


def _members() -> dict[str, dict[str, str]]:
    """The ranks of each process group, which gloo does not record."""
    module: Any = sys.modules.get("torch.distributed.distributed_c10d")
    world = getattr(module, "_world", None)
    names, ranks = getattr(world, "pg_names", {}), getattr(world, "pg_group_ranks", {})
    return {
        str(name): {"name": str(name), "desc": "", "ranks": json.dumps(sorted(ranks.get(group, ())))}
        for group, name in list(names.items())
    }


def _c10d() -> Any:
    import torch  # noqa: PLC0415 - a process without torch never comes here

    return getattr(torch._C, "_distributed_c10d", None)  # noqa: SLF001 - this package's business


@dataclass
class WaitWatch:
    """The thread of one rank."""

    rank: int
    logs: str
    """Folder of the dumps."""
    folder: str
    """Folder of the run, which all its ranks see."""
    progress: Callable[[], Mapping[str, tuple[int, int]]] = recorder_progress
    dump: Callable[[], dict[str, Any]] = recorder_dump
    clock: Callable[[], float] = time.monotonic
    _stop: threading.Event = field(default_factory=threading.Event)
    _main: int | None = field(default_factory=lambda: threading.main_thread().ident)
    _last: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    _moved: float | None = None
    """When the recorder last had something new."""
    _call: tuple[Any, ...] | None = None
    """The call that the main thread is in, and since when."""
    _called: float = 0.0
    _waited: float | None = None
    """When it was last seen waiting."""
    _written: object = None
    _position: list[dict[str, Any]] = field(default_factory=list)
    """The stack in the dump."""

    def run(self) -> None:
        """Look until the process ends."""
        with contextlib.suppress(Exception):
            self._remove()  # what a process with this rank has left that the launcher has started again
            while not self._stop.wait(_EVERY):
                self.look()

    def look(self) -> None:
        """Write a dump, or remove it."""
        now, stack = self.clock(), self._stack()
        progress = dict(self.progress())
        if progress != self._last or self._moved is None:
            is_new = any(last[0] > self._last.get(group, (0, 0))[0] for group, last in progress.items())
            self._last, self._moved = progress, now
            if is_new:
                self._waited = None
        call = _call_of(stack)
        key = None if call is None else (id(stack[0]), stack[0].f_lasti)
        if key is None or key != self._call:
            self._call, self._called = key, now
        has_begun = any(begun > ended for begun, ended in progress.values())
        waits = has_begun and now - self._moved >= WAITS_AFTER
        waits |= key is not None and now - self._called >= WAITS_AFTER
        if waits:
            self._waited = now
            self._mark(_WAITS).touch()
            self._add_ended()
        elif self._waited is not None and now - self._waited <= _KEPT:
            return  # the dump of when it waited is kept
        elif not self._others_wait():
            self._remove()
            return
        else:
            self._mark(_WAITS).unlink(missing_ok=True)
        self._write({"stack": _as_data(stack), "call": call if waits else None})

    def end(self) -> None:
        """The process ends: leave a dump if it waited and an exception ends it, or for ranks that wait for this one.

        The stack of the exception is not enough: one out of a collective that a backward calls comes from C++, without
        a frame of torch.distributed, so the text of the transport decides. The exit code is not, either: `mp.spawn`
        turns an exception into a code, so the exception itself is looked up.
        """
        if self._stop.is_set():
            return
        self._stop.set()
        with contextlib.suppress(Exception):
            error = _ending_exception()
            waited = None if self._waited is None else self.clock() - self._waited
            if isinstance(error, KeyboardInterrupt):
                if self._others_wait() or (waited is not None and waited <= _JUST_NOW):
                    return  # what it did when it was interrupted
                error = None
            places = list(traceback.walk_tb(None if error is None else error.__traceback__))[::-1]
            stack = [frame for frame, _ in places]
            call = _call_of(stack)
            has_begun = any(begun > ended for begun, ended in self.progress().values())
            if waited is not None and (has_begun or error is not None):
                return
            data = _as_data(stack, [line for _, line in places])
            entries = self.dump()["entries"]
            reopened = _reopened(entries, data)
            if _OF_TRANSPORT.search(str(error)) and (call is not None or reopened != entries):
                self._mark(_WAITS).touch()
                self._add_ended()
                self._write({"stack": data, "call": call, "entries": reopened})
                return
            # Without an exception: what it did while others waited.
            last = self._position if error is None else data
            ended = "ended" if error is None else type(error).__name__
            self._leave({"stack": last, "call": None, "ended": ended})

    def _leave(self, more: Mapping[str, Any]) -> None:
        """The process ends, and does not wait: others may wait for it, now or later."""
        self._mark(_WAITS).unlink(missing_ok=True)
        self._mark(_ENDED).write_text(json.dumps({**self.dump(), **more}, default=str), encoding="utf-8")
        if self._others_wait():
            self._add_ended()
            return
        for rank in self._ended():
            self._path(rank).unlink(missing_ok=True)

    def _ended(self) -> list[str]:
        """The ranks that have ended without waiting."""
        return [path.name.removeprefix(_ENDED) for path in Path(self.folder).glob(f"{_ENDED}*")]

    def _add_ended(self) -> None:
        """Add the dumps of ranks that have ended: one waits for them."""
        for rank in self._ended():
            with contextlib.suppress(OSError):
                write_whole(self._path(rank), Path(self.folder, f"{_ENDED}{rank}").read_bytes())

    def _stack(self) -> list[FrameType]:
        """The frames of the main thread, innermost first."""
        frame = sys._current_frames().get(self._main or 0)  # noqa: SLF001 - the documented way to another thread's stack
        return [item for item, _ in traceback.walk_stack(frame)][:_MAX_FRAMES] if frame is not None else []

    def _write(self, more: Mapping[str, Any]) -> None:
        known = (self._last, more["stack"], more["call"])
        self._position = more["stack"]
        if known != self._written:
            write_whole(self._path(self.rank), json.dumps({**self.dump(), **more}, default=str).encode())
            self._written = known

    def _remove(self) -> None:
        if self._written is not None or self._mark(_WAITS).exists():
            self._written, self._position = None, []
            self._mark(_WAITS).unlink(missing_ok=True)
            self._path(self.rank).unlink(missing_ok=True)

    def _others_wait(self) -> bool:
        return any(path != self._mark(_WAITS) for path in Path(self.folder).glob(f"{_WAITS}*"))

    def _mark(self, name: str) -> Path:
        return Path(self.folder, f"{name}{self.rank}")

    def _path(self, rank: int | str) -> Path:
        return Path(self.logs, f"{WAIT_DUMP}{rank}")


def _ending_exception() -> BaseException | None:
    """What ends the process: of `mp.spawn`, which catches an exception and exits with a code, that exception."""
    error = sys.exc_info()[1] or getattr(sys, "last_value", None)
    if not isinstance(error, SystemExit):
        return error
    return None if error.code in {None, 0} else error.__context__


def _call_of(stack: Sequence[FrameType]) -> dict[str, Any] | None:
    """The function of torch.distributed that the innermost frames are, and the other rank of a send or receive."""
    if not stack or not stack[0].f_code.co_filename.endswith(_C10D):
        return None
    frame = stack[0]
    for outer in stack[1:]:
        if not outer.f_code.co_filename.endswith(_OF_CALLS):
            break
        if outer.f_code.co_filename.endswith(_C10D):
            frame = outer
    peer = next((frame.f_locals.get(name) for name in ("src", "dst") if name in frame.f_locals), None)
    return {"name": frame.f_code.co_name, "peer": peer if isinstance(peer, int) else None}


def _reopened(entries: Sequence[dict[str, Any]], stack: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The entries, the last one as not ended if it is the call that raised: gloo records its end either way."""
    if not entries or _caller(entries[-1].get("frames") or ()) != _caller(stack):
        return list(entries)
    return [*entries[:-1], {**entries[-1], "retired": False, "state": "scheduled"}]


def _caller(frames: Iterable[Mapping[str, Any]]) -> tuple[Any, ...] | None:
    """The frame that called torch.distributed."""
    outside = (frame for frame in frames if not str(frame["filename"]).endswith(_OF_CALLS))
    frame = next(outside, None)
    return None if frame is None else (frame["filename"], frame["line"], frame["name"])


def _as_data(stack: Sequence[FrameType], lines: Iterable[int | None] = ()) -> list[dict[str, Any]]:
    """As the recorder has the frames of a collective."""
    known = list(lines) or [frame.f_lineno for frame in stack]
    return [
        {"filename": frame.f_code.co_filename, "line": line or 0, "name": frame.f_code.co_name}
        for frame, line in zip(stack, known, strict=True)
    ]
