"""A run of the user's program up to a call whose trace fails, breaks or does not end, which is recorded as Python.

Invariant: the program runs as its source says, and ends once the call is recorded.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fuselight.adapters.torch_api.dynamo import errors, frames, targets
from fuselight.adapters.torch_api.dynamo.traced_frames import TracedFrame, traced_frames, traced_functions
from fuselight.capture import dynamo
from fuselight.capture.calls.rungs import Answered
from fuselight.shared.protocol import GraphsRequest
from fuselight.shared.report import CodeSearch, RecordedCode, Report
from fuselight.shared.report.failure import first_line
from fuselight.worker.child.request_results import RequestResult
from fuselight.worker.child.state import RunState
from fuselight.worker.child.target_run import Climb, InputsCaptured, make_calls
from fuselight.worker.repro.code_text import recorded_code
from fuselight.worker.repro.graph_run import CompileOptions
from fuselight.worker.repro.inner_frames import inner_frames

_WORDS = 300


class RecordCode:
    """Makes the calls of the target as the source compiles it, and records one (target_run.RunStrategy)."""

    runs_main = True

    @contextlib.contextmanager
    def compiling(self, state: RunState) -> Iterator[dynamo.CompileCalls]:
        """As in RunStrategy."""
        request = state.job.request
        if not isinstance(request, GraphsRequest) or request.code is None:
            raise TypeError(f"{type(request).__name__} does not say what to record")
        run = state.result = _CodeRun(request.code, request.roots)
        with targets.replaced_compile(run.options.compile, run.options.optimize), traced_frames(run):
            yield dynamo.CompileCalls()

    def use(self, state: RunState, answered: Answered, climb: Climb, names: Mapping[str, Any]) -> None:
        """As in RunStrategy."""
        del climb
        make_calls(state, answered, names)


class _CodeRun(RequestResult):
    """Records one call of a run (traced_frames.FrameListener)."""

    def __init__(self, search: CodeSearch, roots: Sequence[str]) -> None:
        self.options = CompileOptions(roots)
        self._search = search
        self._codes: list[RecordedCode] = []
        self._frame: TracedFrame | None = None
        self._reason = ""
        """That of the graph break that is looked for, once Dynamo has come to it."""
        self._stack: list[tuple[str, str]] = []
        """File and function of its traced frames."""
        self._watch: threading.Timer | None = None
        self._is_over = False
        """Whether a compile took too long, and its exception is on the way."""

    def complete_report(self, report: Report) -> Report:
        """As in RequestResult."""
        return replace(report, reproduction=self.options.reproduction(codes=self._codes))

    def frame_started(self, frame: TracedFrame) -> None:
        """As in FrameListener."""
        self._frame, self._reason = frame, ""
        seconds = self._search.hang_seconds
        if seconds and threading.current_thread() is threading.main_thread():
            self._watch = threading.Timer(seconds, self._end, (frame, threading.get_ident()))
            self._watch.daemon = True
            self._watch.start()

    def frame_broke(self, reason: str, error: Any) -> None:
        """As in FrameListener."""
        place = self._search.broken_at
        if place is None or self._reason:
            return
        stack = [
            (entry.filename, entry.lineno) for entry in (frames.real_stack(error) or frames.user_stack())
        ]
        words = str(getattr(error, "msg", None) or error or reason).strip()
        if (place.path, place.line) in stack and self._search.reason in f"{words}\n{reason}":
            self._reason = words.partition("\n")[0]
            self._stack = _functions(error)

    def frame_ended(self, error: BaseException | None) -> None:
        """As in FrameListener."""
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if self._is_over and self._frame is not None:
            self._is_over = False
            self._record(self._frame, "")
            return
        if self._codes or self._frame is None:
            return
        if isinstance(error, errors.exceptions.Unsupported) and self._search.broken_at is not None:
            self.frame_broke("", error)
        if self._reason:
            self._record(self._frame, f"Unsupported: {self._reason}")
        elif isinstance(error, Exception) and self._is_failure(error, self._frame):
            self._stack = _functions(error)
            self._record(self._frame, f"{type(error).__name__}: {first_line(error)}")
        else:
            return
        raise InputsCaptured

    def _is_failure(self, error: Exception, frame: TracedFrame) -> bool:
        if self._search.broken_at is not None or self._search.hang_seconds:
            return False
        is_break = isinstance(error, errors.exceptions.Unsupported) and not frame.is_whole
        return not is_break

    def _record(self, frame: TracedFrame, words: str) -> None:
        inner = inner_frames(frame, self._stack[1:])
        self._codes = [recorded_code(each, words[:_WORDS]) for each in (*inner, frame)]

    def _end(self, frame: TracedFrame, thread: int) -> None:
        """Record a frame whose compile takes too long, from another thread, and end the program's."""
        if not self._codes:
            self._stack, self._is_over = traced_functions(thread), True
            self._codes = [recorded_code(frame, "")]
            kind = ctypes.py_object(InputsCaptured)
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), kind)


def _functions(error: Any) -> list[tuple[str, str]]:
    """File and function of each traced frame, outermost first."""
    stack = frames.real_stack(error) or frames.user_stack()
    return [(entry.filename, entry.name) for entry in stack]
