"""The start of a program's own process under `fuselight run`, which writes no log: imports, compiles by function."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from fuselight.shared.report import Location, Report
from fuselight_server.jobs.caches.model import LineStart, StageTime, StartPicture, StartStage
from fuselight_server.jobs.caches.starts import import_lines, import_notes

_HOW_TO_DIVIDE = (
    "`TORCH_TRACE=FOLDER fuselight run ...` records the stages of the compiles and what a second start saves: "
    "open FOLDER with `fuselight open`."
)


def recorded_start(report: Report) -> StartPicture | None:
    """Where the start went; None if nothing was compiled, or the imports could not be timed."""
    imports = report.imports
    if imports is None or not report.compiles:
        return None
    lines = [*_functions(report), *import_lines(imports)]
    stages = (
        StageTime(StartStage.IMPORTS, imports.seconds),
        StageTime(StartStage.PROGRAM, max(0.0, imports.until_compile - imports.seconds)),
        StageTime(StartStage.COMPILES, sum(compiled.seconds or 0.0 for compiled in report.compiles)),
    )
    return StartPicture(
        file="",
        rank=None,
        is_import_known=True,
        stages=tuple(stage for stage in stages if stage.seconds > 0),
        lines=tuple(sorted(lines, key=lambda line: -line.seconds)),
        saved_by_second_start=None,
        notes=(*import_notes(imports), _HOW_TO_DIVIDE),
    )


def _functions(report: Report) -> Iterator[LineStart]:
    times: dict[tuple[str, int, str], list[float]] = defaultdict(list)
    for compiled in report.compiles:
        frame = report.frames[compiled.frame]
        times[frame.location.path, frame.location.line, frame.function].append(compiled.seconds or 0.0)
    for (path, line, function), seconds in times.items():
        stages = (StageTime(StartStage.COMPILES, sum(seconds)),)
        yield LineStart(Location(path, line), function, len(seconds), stages, None)
