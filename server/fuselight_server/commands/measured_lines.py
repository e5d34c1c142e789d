"""The measured time in eager mode of lines that break graphs, from the newest kept benchmark of each target.

Invariant: a line has a time only while its text is the one that was measured. Nothing is read where no two lines
compete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from fuselight.shared.report import Report
from fuselight_server.explain.benchmarks.history import BenchmarkRun
from fuselight_server.explain.benchmarks.planning import history_of
from fuselight_server.explain.benchmarks.profile import eager_times
from fuselight_server.explain.benchmarks.timing_stats import shown_of
from fuselight_server.explain.findings.priority import Priority


def measured_eager_times(
    reports: Iterable[Report], lines: Iterable[Priority], read_line: Callable[[str, int], str | None]
) -> dict[tuple[str, int], float]:
    """By path and line, the microseconds of one call; of several benchmarks of a line, the longest time.

    `lines` are those that are worth a fix; `read_line` gives their text without its end, as the reports have it.
    """
    if sum(bool(priority.cost.breaks) for priority in lines) <= 1:
        return {}
    times: dict[tuple[str, int], float] = {}
    for path, name in dict.fromkeys(target for report in reports for target in _targets(report)):
        run = history_of(path, name).newest()
        for place, us in _times_of(run, read_line) if run is not None else ():
            times[place] = max(us, times.get(place, 0.0))
    return times


def _targets(report: Report) -> Iterator[tuple[str, str]]:
    """The names under which a benchmark of the report's target is kept: a program has one for each of its parts."""
    yield report.target.path, report.target.name
    yield from ((recorded_call.path, recorded_call.target) for recorded_call in report.recorded)


def _times_of(
    run: BenchmarkRun, read_line: Callable[[str, int], str | None]
) -> Iterator[tuple[tuple[str, int], float]]:
    shown = shown_of(run.report.measured) if run.report.measured is not None else None
    for place, us in eager_times(shown, run.report.roots).items() if shown is not None else ():
        text, measured = read_line(place.path, place.line), run.line(place.path, place.line)
        # The editor keeps lines with their end.
        if text is not None and measured is not None and text == measured.rstrip("\r\n"):
            yield (place.path, place.line), us
