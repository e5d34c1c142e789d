"""Which lines of changed files run in the calls that are compared.

Invariant: no call does anything else because it is watched. Where the interpreter cannot say it for all threads,
nothing is said.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator
from types import CodeType, FrameType
from typing import Any

from fuselight.shared.report import LinesRun

_TOOL_IDS = (3, 4)
"""Of `sys.monitoring`, for tools without a fixed number."""
_NAME = "fuselight lines"


class LineWatch:
    """The lines of some files that have run inside `watching`."""

    def __init__(self, paths: Iterable[str]) -> None:
        """Watch the files with these paths, as code objects name them."""
        self._lines: dict[str, set[int]] = {path: set() for path in paths}
        self._is_known = True
        self._is_new = True

    @property
    def lines_run(self) -> tuple[LinesRun, ...]:
        """One entry for each file; empty if it is not known."""
        if not self._is_known:
            return ()
        return tuple(LinesRun(path, tuple(sorted(lines))) for path, lines in sorted(self._lines.items()))

    @contextlib.contextmanager
    def watching(self, *, has_threads: bool = False) -> Iterator[None]:
        """Note each line that runs. `has_threads`: whether torch may call Python in threads: a backward on a GPU."""
        monitoring: Any = getattr(sys, "monitoring", None)
        number = None if monitoring is None else _free_tool(monitoring)
        if not self._lines:
            yield
        elif number is not None:
            with self._monitored(monitoring, number):
                yield
        else:
            self._is_known = self._is_known and not has_threads
            with self._traced():
                yield

    @contextlib.contextmanager
    def _monitored(self, monitoring: Any, number: int) -> Iterator[None]:
        """With events of the interpreter, which see all threads (Python 3.12 and newer)."""

        def note(code: CodeType, line: int) -> object:
            lines = self._lines.get(code.co_filename)
            if lines is not None:
                lines.add(line)
            return monitoring.DISABLE  # of this line alone: it is known now

        monitoring.use_tool_id(number, _NAME)
        monitoring.register_callback(number, monitoring.events.LINE, note)
        if self._is_new:
            monitoring.restart_events()  # lines that another watch has switched off
            self._is_new = False
        monitoring.set_events(number, monitoring.events.LINE)
        try:
            yield
        finally:
            monitoring.set_events(number, 0)
            monitoring.register_callback(number, monitoring.events.LINE, None)
            monitoring.free_tool_id(number)

    @contextlib.contextmanager
    def _traced(self) -> Iterator[None]:
        before = sys.gettrace()
        sys.settrace(self._enter)
        try:
            yield
        finally:
            sys.settrace(before)

    def _enter(self, frame: FrameType, event: str, value: object) -> Callable[..., Any] | None:
        del event, value
        lines = self._lines.get(frame.f_code.co_filename)
        if lines is None:
            return None

        def note(inner: FrameType, what: str, _value: object) -> Any:
            if what == "line":
                lines.add(inner.f_lineno)
            return note

        return note


def _free_tool(monitoring: Any) -> int | None:
    return next((number for number in _TOOL_IDS if monitoring.get_tool(number) is None), None)
