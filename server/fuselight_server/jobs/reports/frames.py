"""The frames of a job's logs as a Report has them: with local paths, and on the `def` line of their function.

Invariant: code that resumes after a graph break has the `def` line of the function that broke.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from fuselight.shared.report import Frame, Location, Stack, is_pythons_own
from fuselight_server.jobs.reports.mapping import JobFiles, LineState, is_torch_file
from fuselight_server.jobs.reports.moved_lines import last_name
from fuselight_server.jobs.trace_log.libraries import is_library
from fuselight_server.jobs.trace_log.model import GraphBreak, LoggedCompile


class JobFrames:
    """The frames of one process."""

    def __init__(self, files: JobFiles) -> None:
        """`files`: which local file is which of the job."""
        self._files = files
        self._definitions: dict[tuple[int | None, int | None], Frame] = {}
        self._first_lines: dict[Frame, int] = {}
        self._indices: dict[Frame, int] = {}

    def index(self, frame: Frame) -> int:
        """The index of a compiled frame in `compiled()`."""
        return self._indices.setdefault(frame, len(self._indices))

    def compiled(self) -> tuple[Frame, ...]:
        """The frames that have an index."""
        return tuple(self._indices)

    def first_line(self, frame: Frame) -> int:
        """First line of the code object of a frame, in the local file: that of a decorator, if there is one."""
        return self._first_lines.get(frame, frame.location.line)

    def frame(self, compiled: LoggedCompile) -> Frame | None:
        """The frame that was compiled; None where the log does not say where it is."""
        key = (compiled.id.autograd, compiled.id.frame)
        if key in self._definitions:
            return self._definitions[key]
        metrics, location = compiled.metrics, compiled.location
        if metrics is not None and metrics.path is not None and metrics.line is not None:
            location = Location(metrics.path, metrics.line, function=metrics.function)
        if location is None:
            return None
        resumed_at = next(
            (item.resumed_at for item in compiled.attempts if item.resumed_at is not None), None
        )
        frame = self._wrapper(compiled, location) or self._frame_at(location, resumed_at)
        self._definitions[key] = frame
        self._first_lines[frame] = self._files.location(location).line
        return frame

    def _wrapper(self, compiled: LoggedCompile, logged: Location) -> Frame | None:
        """A frame of torch's own, which wraps what was compiled: it stands on the line that called it."""
        caller = self.caller(compiled)
        if not caller or not is_torch_file(logged.path):
            return None
        return Frame(caller[-1].function or "", caller[-1], wrapper=logged)

    def _frame_at(self, logged: Location, resumed_at: int | None) -> Frame:
        """A frame; that of code which resumes after a break has the `def` line of the function that broke."""
        here = self._files.location(logged)
        name = here.function or ""
        if resumed_at is not None:
            resumed_at = self._files.location(replace(logged, line=resumed_at)).line
            broken = next(
                (frame for frame in reversed(self._indices) if _resumes(frame, here, resumed_at)), None
            )
            if broken is not None:
                return replace(broken, resumes_at=resumed_at)
        definition = self._files.sources.definition(here.path, here.line, name)
        if definition is None:
            return Frame(name, here, resumed_at)
        return Frame(
            definition.name, replace(here, line=definition.line), resumed_at, parameters=definition.parameters
        )

    def caller(self, compiled: LoggedCompile) -> Stack:
        """The frames that called a compiled function, with the one that torch leaves out, if the source decides it."""
        logged = compiled.stack[:-1]
        stack = self.stack(frame.location for frame in logged)
        if not stack or is_library(logged[-1].path) or compiled.last.resumed_at is not None:
            return stack
        if self._files.state(stack[-1].path, stack[-1].line) is LineState.CHANGED:
            return stack
        left_out = self._files.sources.left_out_caller(stack[-1], last_name(compiled.function or ""))
        return stack if left_out is None else (*stack, left_out)

    def of_break(self, compiled: LoggedCompile, frame: Frame, graph_break: GraphBreak) -> tuple[Stack, Stack]:
        """The frames above the compiled function, and its traced frames, which end on the line of the break."""
        location = self._files.location(graph_break.location)
        stack = self.stack(item.location for item in graph_break.stack)
        above, traced = _split(stack, frame)
        if not traced or (traced[-1].path, traced[-1].line) != (location.path, location.line):
            above, traced = (stack, (location,))
        return _with_callers(above, self.caller(compiled), stack), traced

    def stack(self, stack: Iterable[Location]) -> Stack:
        """Frames of the job's code and of installed packages, as the runs of a Report have them: none of torch's."""
        return tuple(self._files.location(frame) for frame in stack if not _is_hidden(frame.path))


def _with_callers(above: Stack, caller: Stack, stack: Stack) -> Stack:
    """The frames above a break, with the callers of the compiled function where torch has left them out."""
    has_callers = not caller or any(
        (frame.path, frame.line) == (caller[0].path, caller[0].line) for frame in stack
    )
    return above if has_callers else (*caller, *above)


def _split(stack: Stack, frame: Frame) -> tuple[Stack, Stack]:
    """The frames above the compiled function, and its traced frames: those from its last activation on."""
    name = last_name(frame.function)
    for index in range(len(stack) - 1, -1, -1):
        if stack[index].path == frame.location.path and stack[index].function == name:
            return stack[:index], stack[index:]
    return stack[:-1], stack[-1:]


def _resumes(frame: Frame, here: Location, line: int) -> bool:
    """Whether code that resumes on a line can be that of a frame."""
    is_same = (frame.location.path, last_name(frame.function)) == (
        here.path,
        last_name(here.function or ""),
    )
    return is_same and frame.location.line <= line


def _is_hidden(path: str) -> bool:
    return path.startswith("<") or is_torch_file(path) or is_pythons_own(path)
