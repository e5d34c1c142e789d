"""Turns of the searches on one machine: while one of them times calls, the processes of the others are paused.

Two locks of the user's, on files that every search opens. A search holds `running` together with others while its
processes run, and alone while it times; who wants to time takes `timing` first, which tells the others to make way.
The folder must be this user's alone, and no link.
Invariant: a search that ends in any way holds no lock afterwards, and no wait is longer than `PATIENCE`. Without such
locks (Windows, no folder of the user's own) a search runs as if it were alone.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import IO, Any

from fuselight.shared.foreign_files import make_private_folder, open_to_append

fcntl: Any = importlib.import_module("fcntl") if sys.platform != "win32" else None

PATIENCE = 120.0
"""Seconds to wait for another search to finish its timing."""
_CALL = 15.0
"""Seconds to wait for others to pause: one of them may be within a call of the user's."""
_TICK = 0.02


def shared_folder() -> str:
    """The folder in which this user's searches find each other."""
    user = os.getuid() if hasattr(os, "getuid") else ""
    return os.path.join(tempfile.gettempdir(), f"fuselight-turns-{user}")


@dataclass
class Turns:
    """One search's part in the turns."""

    folder: str = ""
    """Where the locks are; empty: the search takes no turns."""
    clock: Callable[[], float] = time.monotonic
    waited: float = 0.0
    """Seconds for which this search waited for others, while its processes were paused."""
    _running: IO[Any] | None = None
    _timing: IO[Any] | None = None

    def __post_init__(self) -> None:
        if fcntl is None or not self.folder:
            return
        with contextlib.suppress(OSError):
            make_private_folder(self.folder)  # whatever another user has put there is not ours
            self._running = open_to_append(os.path.join(self.folder, "running"))
            self._timing = open_to_append(os.path.join(self.folder, "timing"))
            os.register_at_fork(after_in_child=self.close)  # a fork's copy would keep the locks
            self._take(self._running, PATIENCE, alone=False)

    def close(self) -> None:
        """Leave the turns."""
        for file in (self._running, self._timing):
            if file is not None:
                file.close()
        self._running = self._timing = None

    @contextlib.contextmanager
    def timing(self) -> Iterator[None]:
        """Within the block no other search runs; enter it with the own processes paused."""
        began = self.clock()
        self._release(self._running)
        self._take(self._timing, PATIENCE, alone=True)
        self._take(self._running, _CALL, alone=True)
        self.waited += self.clock() - began
        try:
            yield
        finally:
            self._release(self._running)
            self._release(self._timing)
            self._take(self._running, PATIENCE, alone=False)

    def is_asked_to_wait(self) -> bool:
        """Whether another search times calls, or wants to."""
        if self._try(self._timing, alone=False):
            self._release(self._timing)
            return False
        return True

    def make_way(self) -> None:
        """Wait until the other search has timed its calls; enter it with the own processes paused."""
        began = self.clock()
        self._release(self._running)
        self._take(self._timing, PATIENCE, alone=False)
        self._release(self._timing)
        self._take(self._running, PATIENCE, alone=False)
        self.waited += self.clock() - began

    def _take(self, file: IO[Any] | None, seconds: float, *, alone: bool) -> None:
        until = self.clock() + seconds
        while not self._try(file, alone=alone) and self.clock() < until:
            time.sleep(_TICK)

    @staticmethod
    def _try(file: IO[Any] | None, *, alone: bool) -> bool:
        if file is None:
            return True
        try:
            fcntl.flock(file, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    @staticmethod
    def _release(file: IO[Any] | None) -> None:
        if file is not None:
            with contextlib.suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_UN)
