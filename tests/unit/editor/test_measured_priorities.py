"""In the editor, a kept benchmark decides which line that breaks graphs is the first to fix, as in `check`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fuselight.shared.report import Frame, LaunchKind, Location, Recorded, Report, TargetRef
from fuselight_server.editor.results.captures import CaptureResult, read_capture
from fuselight_server.editor.results.report_reading import line_reader
from fuselight_server.execution.runs.keys import Key
from fuselight_server.explain.findings import Thresholds
from tests.support.benchmark_session import TEXT, BenchmarkSession, benchmark_report, measured
from tests.support.measured import profile, ran, row
from tests.support.reports import broken, report

FIRST, SECOND = 11, 14
BY_COUNT, BY_TIME = "Fix line 11 of m.py first: ", "Fix line 14 of m.py first: "


def capture(path: str, name: str, *recorded: Recorded) -> CaptureResult:
    """A capture with two breaks on the first line and one on the second."""
    breaks = [
        broken(Location(path, line, 8, line, 16, function="Net.forward"), gb=gb)
        for line, gb in ((FIRST, "GB0059"), (FIRST, "GB0124"), (SECOND, "GB0170"))
    ]
    target = TargetRef(path, name, 5, "function")
    given = report(
        target=target,
        breaks=tuple(breaks),
        frames=(Frame("Net.forward", Location(path, FIRST)),),
        roots=(str(Path(path).parent),),
        recorded=recorded,
    )
    return read_capture(Key(path, name), 1, given, Thresholds(), line_reader({}))


def benchmark_with_eager_time(session: BenchmarkSession) -> Report:
    """A benchmark in which the second line takes the most time in eager mode."""
    given = benchmark_report(session)
    launches = [
        replace(ran(None, us), stack=(Location(session.path, line),), kind=LaunchKind.EAGER)
        for line, us in ((FIRST, 4.0), (SECOND, 1230.0))
    ]
    assert given.measured is not None
    rows = (row("eager", 9000.0), row("default", 2000.0, profile=profile(launches)))
    return replace(given, measured=replace(given.measured, configurations=rows))


def change_second_line(session: BenchmarkSession) -> None:
    before, last, after = TEXT.rpartition("        return x\n")
    assert last
    Path(session.path).write_text(f"{before}        return x * 2\n{after}")


@pytest.mark.asyncio
async def test_a_benchmark_ranks_the_lines_of_captures_before_and_after_it(tmp_path: Path) -> None:
    session = BenchmarkSession(tmp_path)
    part = Recorded(session.path, "f", 5, "f(f32[4])")
    own, program = capture(session.path, "f"), capture(session.path, "__main__", part)
    other = capture(session.path, "Net.forward")
    for capture_result in (own, program, other):
        session.state.accept_result(capture_result)
        assert capture_result.fix_first().startswith(BY_COUNT)
    await measured(session, benchmark_with_eager_time(session))
    for capture_result in (own, program):
        assert capture_result.fix_first().startswith(BY_TIME)
        assert capture_result.fix_first().endswith("; 1.23 ms of a call in eager mode (measured)")
    assert other.fix_first().startswith(BY_COUNT), "it has no benchmark"
    assert capture(session.path, "f").fix_first() == own.fix_first(), "a new capture reads the kept benchmark"
    change_second_line(session)
    assert capture(session.path, "f").fix_first().startswith(BY_COUNT), (
        "the line is not the one that was measured"
    )
    await session.analysis.close()
