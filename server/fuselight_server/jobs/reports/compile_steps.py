"""The phases of the compiles of a process as the steps of a flame chart of compile time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight.shared.report import CompileStep, Location, Report

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fuselight_server.jobs.trace_log.model import ProcessLog


def read_compile_steps(process: ProcessLog, report: Report) -> tuple[CompileStep, ...]:
    """The phases of a process, with the line that is compiled; an unfinished phase lasts to the end of the log."""
    if not process.phases:
        return ()
    begin = min(phase.start for phase in process.phases)
    last = max([process.ended or begin, *(phase.end or phase.start for phase in process.phases)])
    places = locations_of_compiles(report)
    return tuple(
        CompileStep(
            name=phase.name,
            start_us=(phase.start - begin) * 1e6,
            us=((last if phase.end is None else phase.end) - phase.start) * 1e6,
            depth=phase.depth,
            compile_id=None if phase.compile_id is None else str(phase.compile_id),
            location=places.get(str(phase.compile_id)),
        )
        for phase in process.phases
    )


def locations_of_compiles(report: Report) -> Mapping[str, Location]:
    """The line of each compile: the `def` line of its function, or the line where it resumes."""
    places = {}
    for compiled in report.compiles:
        frame = report.frames[compiled.frame]
        line = frame.resumes_at
        places[compiled.id] = frame.location if line is None else _resumed(frame.location, line)
    return places


def _resumed(location: Location, line: int) -> Location:
    return type(location)(location.path, line, function=location.function)
