"""Lines that break graphs get the time in eager mode that a kept benchmark of the target measured."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from fuselight.shared.report import (
    Frame,
    GapKind,
    LaunchKind,
    Location,
    Recorded,
    Report,
    TargetRef,
)
from fuselight_server.commands.measured_lines import measured_eager_times
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.explain.benchmarks.history import run_of
from fuselight_server.explain.benchmarks.planning import history_of
from fuselight_server.explain.benchmarks.profile import eager_times
from fuselight_server.explain.findings import findings
from tests.support.measured import benchmark, gap, profile, ran, row
from tests.support.reports import FILE, ROOT, broken, report

TEXT = "def f(x):\n    print(x)\n    log(x)\n    return x\n"


def test_only_eager_work_counts_for_the_line_that_caused_it() -> None:
    launches = (
        ran(None, 9.0, line=7),
        dataclasses.replace(ran(None, 4.0, line=7), kind=LaunchKind.COPY),
        ran(None, 1.0),
    )
    gaps = [gap(GapKind.EAGER, 2.0, line=7), gap(GapKind.HOST, 50.0, line=7), gap(GapKind.EAGER, 3.0, line=8)]
    times = eager_times(row("default", profile=profile(launches, gaps)), (ROOT,))
    assert {(place.path, place.line): us for place, us in times.items()} == {(FILE, 7): 11.0, (FILE, 8): 3.0}
    assert eager_times(row("default"), (ROOT,)) == {}


@pytest.fixture
def path(tmp_path: Path) -> str:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "model.py").write_text(TEXT)
    return str(tmp_path / "model.py")


def keep(path: str, name: str, times: dict[int, float]) -> None:
    """Keep a benchmark of a target with time in eager mode on some lines."""
    launches = [
        dataclasses.replace(ran(None, us), stack=(Location(path, line),), kind=LaunchKind.EAGER)
        for line, us in times.items()
    ]
    target = TargetRef(path, name, 1, "function")
    history = history_of(path, name)
    root = str(history.store.folder.parent)
    given = dataclasses.replace(
        benchmark(row("default", profile=profile(launches))), target=target, roots=(root,)
    )
    lines = TEXT.splitlines(keepends=True)
    run = run_of(given, root, lambda _path, line: lines[line - 1])
    assert run is not None
    assert history.keep_run(run) is not None


def outcome_of(path: str, *lines: int, **parts: object) -> CheckOutcome:
    breaks = tuple(broken(Location(path, line, 4, line, 9, function="f")) for line in lines)
    target = TargetRef(path, "f", 1, "function")
    frames = (Frame("f", Location(path, 1)),)
    roots = (str(Path(path).parent),)
    given: Report = report(target=target, breaks=breaks, frames=frames, roots=roots, **parts)
    return CheckOutcome(findings=list(findings(given)), reports=[given])


def times_of(outcome: CheckOutcome) -> dict[tuple[str, int], float]:
    return measured_eager_times(outcome.reports, outcome.priorities, outcome.sources.line)


def test_a_kept_benchmark_gives_times_of_lines_that_did_not_change(path: str) -> None:
    assert times_of(outcome_of(path, 2, 3)) == {}, "no benchmark is kept"
    keep(path, "f", {2: 5.0, 3: 90.0})
    outcome = outcome_of(path, 2, 3)
    outcome.eager_us = times_of(outcome)
    assert outcome.eager_us == {(path, 2): 5.0, (path, 3): 90.0}
    assert [priority.cost.line for priority in outcome.priorities] == [3, 2]
    assert times_of(outcome_of(path, 2)) == {}, "nothing competes"
    Path(path).write_text(TEXT.replace("log(x)", "log(x, 1)"))
    assert times_of(outcome_of(path, 2, 3)) == {(path, 2): 5.0}


def test_the_parts_of_a_program_have_the_benchmarks(path: str) -> None:
    keep(path, "Net.forward", {3: 7.0})
    part = Recorded(path, "Net.forward", 1, "Net.forward(f32[4])")
    assert times_of(outcome_of(path, 2, 3, recorded=(part,))) == {(path, 3): 7.0}
