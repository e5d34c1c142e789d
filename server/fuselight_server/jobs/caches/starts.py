"""The start of each process of a job: where the time of its imports and compiles went, by stage and by line.

Invariant: a second counts once, for the innermost phase that torch recorded.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from fuselight.shared.codec import read_table
from fuselight.shared.report import Imports
from fuselight_server.base.formatting import format_count
from fuselight_server.jobs.caches.def_lines import ReadLine, shown_function, shown_place
from fuselight_server.jobs.caches.lookups import lookups_of
from fuselight_server.jobs.caches.losses import Losses
from fuselight_server.jobs.caches.model import LineStart, StageTime, StartPicture, StartStage
from fuselight_server.jobs.trace_log.model import (
    CacheName,
    CacheState,
    CompileId,
    LoggedCompile,
    LoggedJob,
    ProcessLog,
    TimelinePhase,
)

_Times = dict[StartStage, float]
_SMALLEST_PART = 0.02
_MAX_OVERLAP = 1.02
_SHORTEST_OVERLAP = 0.005
_PATTERNS = tuple(
    (StartStage(stage), re.compile("|".join(patterns)))
    for stage, patterns in read_table(dict[str, tuple[str, ...]], __file__).items()
)
"""The phases of each stage; the first pattern that matches counts."""


def stage_of(name: str) -> StartStage | None:
    """The stage of a phase of torch; None for one that is not known: it belongs to the phase around it."""
    return next((stage for stage, pattern in _PATTERNS if pattern.fullmatch(name)), None)


def start_pictures(
    job: LoggedJob, imports: Imports | None = None, *, read_line: ReadLine | None = None
) -> tuple[StartPicture, ...]:
    """The start of each process that compiled something, rank 0 first.

    `imports`: those of a job of one process whose log has none. `read_line` reads a line of the source that the job
    ran, where it is available.
    """
    processes = list(job.processes)
    others = imports if len(processes) == 1 else None
    return tuple(
        _picture(process, process.imports or others, read_line) for process in processes if process.phases
    )


def _picture(process: ProcessLog, imports: Imports | None, read_line: ReadLine | None) -> StartPicture:
    times = _times_by_compile(process)
    totals: _Times = defaultdict(float)
    if imports is not None:
        totals[StartStage.IMPORTS] = imports.seconds
        if not imports.is_separate:
            totals[StartStage.PROGRAM] = max(0.0, imports.until_compile - imports.seconds)
    for stages in times.values():
        for stage, seconds in stages.items():
            totals[stage] += seconds
    lines = [*_lines(process, times, read_line), *import_lines(imports)]
    saved = [line.saved_by_second_start for line in lines if line.saved_by_second_start is not None]
    return StartPicture(
        file=process.file,
        rank=process.rank,
        is_import_known=imports is not None,
        stages=_ordered(totals),
        lines=tuple(sorted(lines, key=lambda line: -line.seconds)),
        saved_by_second_start=sum(saved) if saved else None,
        notes=(*import_notes(imports), *_notes(process)),
    )


def import_lines(imports: Imports | None) -> Iterator[LineStart]:
    """The lines that import, and the imports of no line of the user's."""
    if imports is None:
        return
    for line in imports.lines:
        yield LineStart(
            location=line.location,
            function=None,
            compiles=0,
            stages=(StageTime(StartStage.IMPORTS, line.own_seconds),),
            saved_by_second_start=None,
            modules=line.modules,
            module_count=line.module_count,
            with_nested=line.seconds,
        )
    if imports.outside_seconds > 0:
        stages = (StageTime(StartStage.IMPORTS, imports.outside_seconds),)
        yield LineStart(None, None, 0, stages, None)


def _times_by_compile(process: ProcessLog) -> dict[CompileId | None, _Times]:
    """Seconds of each stage, each phase without the phases inside of it."""
    times: dict[CompileId | None, _Times] = defaultdict(lambda: defaultdict(float))
    stack: list[_OpenPhase] = []
    for phase in process.phases:
        del stack[phase.depth :]
        around = stack[-1] if stack else None
        # The C++ compiler's phases name no compile: they are of the one that waits for them.
        compile_id = phase.compile_id or (around.compile_id if around else None)
        stage = stage_of(phase.name) or (around.stage if around else StartStage.OTHER)
        seconds = _seconds(phase, process)
        times[compile_id][stage] += seconds
        if around is not None:
            times[around.compile_id][around.stage] -= min(seconds, around.seconds)
        stack.append(_OpenPhase(compile_id, stage, seconds))
    return times


class _OpenPhase(NamedTuple):
    """A phase that may have others inside of it."""

    compile_id: CompileId | None
    stage: StartStage
    seconds: float


def _seconds(phase: TimelinePhase, process: ProcessLog) -> float:
    """Duration; of a phase that the log does not end, up to the last record."""
    end = phase.end if phase.end is not None else process.ended
    return 0.0 if end is None else max(0.0, end - phase.start)


def _ordered(times: Mapping[StartStage, float]) -> tuple[StageTime, ...]:
    return tuple(StageTime(stage, times[stage]) for stage in StartStage if times.get(stage, 0.0) > 0.0)


def _lines(
    process: ProcessLog, times: Mapping[CompileId | None, _Times], read_line: ReadLine | None
) -> Iterator[LineStart]:
    compiles = {compiled.id: compiled for compiled in process.compiles}
    groups: dict[tuple[object, ...], list[CompileId | None]] = defaultdict(list)
    for compile_id in times:
        groups[_function_of(None if compile_id is None else compiles.get(compile_id))].append(compile_id)
    saved = _saved(process)
    for members in groups.values():
        known = next(
            (compiles[member] for member in members if member is not None and member in compiles), None
        )
        totals: _Times = defaultdict(float)
        for member in members:
            for stage, seconds in times[member].items():
                totals[stage] += seconds
        savings = [saved[member] for member in members if member is not None and member in saved]
        yield LineStart(
            location=None if known is None else shown_place(known, read_line),
            function=None if known is None else shown_function(known),
            compiles=sum(member is not None for member in members),
            stages=_ordered(totals),
            saved_by_second_start=sum(savings) if savings else None,
        )


def _function_of(compiled: LoggedCompile | None) -> tuple[object, ...]:
    location = None if compiled is None else compiled.location
    return () if location is None else (location.path, location.line, location.function)


def _saved(process: ProcessLog) -> dict[CompileId, float]:
    """What a second start would not do, by compile: what was missed and then written to the cache."""
    losses = Losses(process)
    saved: dict[CompileId, float] = defaultdict(float)
    for lookup in lookups_of(process):
        event = lookup.event
        if event.compile_id is None or event.cache not in {CacheName.FX_GRAPH, CacheName.AOTAUTOGRAD}:
            continue
        saved[event.compile_id] += (losses.seconds(lookup) or 0.0) if event.state is CacheState.MISS else 0.0
    return saved


def shown_lines(picture: StartPicture) -> tuple[LineStart, ...]:
    """The lines without imports that take no time, next to all that the process imports."""
    imports = sum(line.seconds for line in picture.lines if line.is_import)
    return tuple(
        line
        for line in picture.lines
        if not line.is_import or max(line.seconds, line.with_nested or 0.0) >= imports * _SMALLEST_PART
    )


def import_notes(imports: Imports | None) -> Iterator[str]:
    """What is to be known of the time of imports."""
    if imports is None:
        yield (
            "The log begins with the first compile: the time of imports is not in it. "
            "`fuselight run` records it where it starts the program."
        )
        return
    if imports.is_separate:
        yield (
            "The imports were timed in a process of their own, whose files were in memory: "
            "the first start after a boot takes longer."
        )
    if imports.error:
        yield f"The process that timed the imports ended before the first compile: {imports.error}"
    if imports.is_forked:
        yield "The process is a fork: what its parent process imported is not part of its start."
    if imports.more_lines:
        yield f"Only the first {format_count(len(imports.lines), 'line')} that import are listed."
    each = sum(line.own_seconds for line in imports.lines) + imports.outside_seconds
    if each > imports.seconds * _MAX_OVERLAP + _SHORTEST_OVERLAP:
        yield "Several threads imported at the same time: the lines add up to more than the imports took."


def _notes(process: ProcessLog) -> Iterable[str]:
    if any(phase.end is None for phase in process.phases):
        yield "The log ends inside a compile: the time of its last phases ends with the log."
    if process.not_kept:
        yield "The log has more phases than were kept: times are lower bounds."
