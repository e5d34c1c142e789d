"""Where the log of a process ends: between compiles, or inside one.

Invariant: a log ends inside a compile only if nothing of another compile follows: a lost record of an end, as in a
damaged log, does not count.
"""

from __future__ import annotations

from dataclasses import dataclass

from fuselight.shared.report import Location
from fuselight_server.jobs.trace_log.libraries import is_library, is_wrapper
from fuselight_server.jobs.trace_log.model import (
    AttemptState,
    CompileId,
    LoggedCompile,
    ProcessLog,
    TimelinePhase,
)

_FORWARD = ("dynamo", "entire_frame_compile")
"""The outermost phases of a compile that metrics end."""
_BACKWARD = "entire_backward_compile"


@dataclass(frozen=True, slots=True)
class OpenCompile:
    """A compile that had begun and not ended when the log ended."""

    id: CompileId
    function: str | None
    """None for the function that torch wraps around a library's module, and for compiled autograd."""
    location: Location | None
    """The first line of the function; of a library's, the user's line that led to it."""
    resumed_at: int | None
    """The line where the function goes on after a graph break."""
    is_backward: bool
    started: float | None
    """Seconds since the epoch."""
    phases: tuple[str, ...]
    """The phases of torch that had not ended, the innermost last."""
    phase_started: float | None
    """When the innermost of them began."""


@dataclass(frozen=True, slots=True)
class LogEnd:
    """The end of the log of a process."""

    file: str
    rank: int | None
    process: int | None
    time: float | None
    """Of the last record, seconds since the epoch."""
    compile: OpenCompile | None
    """The compile in which the log ends."""

    @property
    def label(self) -> str:
        """`rank 3`, `process 4121`, or the name of the log."""
        if self.rank is not None:
            return f"rank {self.rank}"
        return f"process {self.process}" if self.process is not None else self.file


def log_end(process: ProcessLog) -> LogEnd:
    """Where the log of a process ends, as far as it was read."""
    return LogEnd(process.file, process.rank, process.process, process.ended, _open_compile(process))


def _open_compile(process: ProcessLog) -> OpenCompile | None:
    compiles = {compiled.id: compiled for compiled in process.compiles}
    phases = _open_phases(process)
    compile_id = next((phase.compile_id for phase in phases if phase.compile_id is not None), None)
    compiled = None if compile_id is None else compiles.get(compile_id)
    if compiled is not None and not _has_ended(compiled, phases):
        return _described(compiled, phases)
    last = process.compiles[-1] if process.compiles else None
    if last is not None and last.state is AttemptState.UNFINISHED:
        return _described(last, [phase for phase in phases if phase.compile_id == last.id])
    return None


def _open_phases(process: ProcessLog) -> list[TimelinePhase]:
    """The phases that the log does not end, outermost first; none if another compile follows them."""
    is_open = [phase.end is None and phase.compile_id is not None for phase in process.phases]
    if not any(is_open):
        return []
    innermost = len(is_open) - 1 - is_open[::-1].index(True)
    compile_id = process.phases[innermost].compile_id
    # The C++ compiler's phases name no compile: they are of the one that waits for them.
    if any(phase.compile_id not in {None, compile_id} for phase in process.phases[innermost:]):
        return []
    first = next(index for index, phase in enumerate(process.phases) if phase.compile_id == compile_id)
    return [
        phase
        for phase in process.phases[first:]
        if phase.end is None and phase.compile_id in {None, compile_id}
    ]


def _has_ended(compiled: LoggedCompile, phases: list[TimelinePhase]) -> bool:
    """Whether torch's metrics, which it writes at the end, are there: then only the end of the phase was lost."""
    is_backward = any(phase.name.startswith(_BACKWARD) for phase in phases)
    if not is_backward and phases[0].name not in _FORWARD:
        return False  # after the compile, as an autotuning at the first call
    return any(row.is_backward == is_backward for attempt in compiled.attempts for row in attempt.metrics)


def _described(compiled: LoggedCompile, phases: list[TimelinePhase]) -> OpenCompile:
    own = next((frame for frame in reversed(compiled.stack) if not is_library(frame.path)), None)
    location = compiled.location
    if own is not None and (location is None or is_library(location.path)):
        location = own.location
    return OpenCompile(
        id=compiled.id,
        function=None if is_wrapper(compiled.location) else compiled.function,
        location=location,
        resumed_at=compiled.last.resumed_at,
        is_backward=any(phase.name.startswith(_BACKWARD) for phase in phases),
        started=phases[0].start if phases else None,
        phases=tuple(phase.name for phase in phases),
        phase_started=phases[-1].start if phases else None,
    )
