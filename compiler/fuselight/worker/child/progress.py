"""The pipe from a run to the host, for its progress and for the answers of a live run.

Invariant: nothing is written where the descriptor is another file by now, as after user code has closed it, and a
process that user code forked sends nothing.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Mapping
from typing import Any

from fuselight.shared import wire
from fuselight.shared.codec import encode
from fuselight.shared.protocol import Progress
from fuselight.worker.child.originals import Originals, getpid

_EVERY = 0.1
"""Seconds between two messages of frames."""
# Bound before any user code runs.
_fstat, _write, _monotonic = os.fstat, os.write, time.monotonic
_DOING = {
    "import": "importing",
    "build": "building",
    "main": "running",
    "trace": "compiling",
    "kernels": "compiling",
}
"""Phases in words, for the progress of a run with a label."""


class ProgressPipe:
    """The pipe of one run."""

    def __init__(self, descriptor: int, request: int, originals: Originals, pid: int) -> None:
        """`request`: its id. `pid`: the process of the run. Nothing is sent before `open`."""
        self._descriptor = descriptor
        self._request = request
        self._originals = originals
        self._pid = pid
        self._identity: tuple[int, int] | None = None
        self._sent_at = 0.0
        self.frame_count = 0
        """Frames that Dynamo has begun with."""
        self.label = ""
        """Name of the configuration, where this run is one of several processes of a benchmark."""

    def open(self) -> None:
        """Send from now on, as long as the descriptor is the same file."""
        self._identity = identity(self._descriptor)

    def is_intact(self) -> bool:
        """Whether the descriptor is still the pipe."""
        return identity(self._descriptor) == self._identity

    def close(self) -> None:
        """Send nothing more: the descriptor is a file of the user's."""
        self._identity = None

    def frame_started(self, count: int, path: str, line: int) -> None:
        """Report that Dynamo has started a frame; at most ten times a second."""
        self.frame_count = count
        now = _monotonic()
        if now - self._sent_at >= _EVERY:
            self._sent_at = now
            self.line_reached(path, line)

    def line_reached(self, path: str, line: int) -> None:
        """Report the line that is being traced; the recorder limits the rate."""
        detail = f"frame {self.frame_count}, {os.path.basename(path)}:{line}"
        self.tell("trace", detail, path, line, self.frame_count)

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message to the host, if the pipe is still ours."""
        with contextlib.suppress(OSError):
            if self.is_intact():
                _write(self._descriptor, wire.frame(wire.dump(message)))

    def tell(
        self,
        phase: str,
        detail: str,
        path: str | None = None,
        line: int | None = None,
        count: int | None = None,
    ) -> None:
        """Send progress, if the pipe is still ours: its number may by now be a file of the user's."""
        if getpid() != self._pid:
            return
        replaced = self._originals.restore(for_message=True)
        try:
            if self.label and phase in _DOING:
                what = f"{os.path.basename(path)}:{line}" if phase == "trace" and path else detail
                detail = f"{self.label}: {_DOING[phase]} {what}"
            self.send(encode(Progress(self._request, phase, detail[:200], path, line, count)))
        finally:
            self._originals.put_back(replaced)


def identity(descriptor: int) -> tuple[int, int] | None:
    """Say which open file a descriptor is, None for a closed one."""
    try:
        status = _fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino
