"""Joins and sums on recordings of real profiles: benchmarks/gpu/record_profiles.py makes them, and each says how."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from benchmarks.gpu.kept_profiles import FOLDER, KeptProfile, read
from fuselight.measure.joining import read_profile
from fuselight.report import GapKind, LaunchKind, Profile

KEPT = sorted(FOLDER.glob("*.json.gz"))
CASES = [path.name.removesuffix(".json.gz") for path in KEPT]


@functools.lru_cache(maxsize=64)
def _kept(path: Path) -> KeptProfile:
    return read(path)


@functools.lru_cache(maxsize=64)
def _profile(path: Path) -> Profile:
    kept = _kept(path)
    return read_profile(kept.recording, kept.generated, breaks=kept.breaks, not_compiled=kept.not_compiled)


def test_there_are_recordings() -> None:
    assert any("-default-" in name for name in CASES)
    assert any("-eager-" in name for name in CASES)


@pytest.mark.parametrize("path", KEPT, ids=CASES)
def test_a_recording_says_what_it_is_of(path: Path) -> None:
    made = _kept(path).recording.made
    assert all(made[what] for what in ("case", "device", "python", "torch", "command"))
    assert made["case"].replace("/", "-") in path.name
    assert made["case"] in made["command"]


@pytest.mark.parametrize("path", KEPT, ids=CASES)
def test_kernels_and_gaps_are_the_wall_time(path: Path) -> None:
    profile = _profile(path)
    assert profile.kernel_us + sum(gap.us for gap in profile.gaps) == pytest.approx(profile.wall_us)
    assert 0 < profile.kernel_us <= profile.wall_us


@pytest.mark.parametrize("path", KEPT, ids=CASES)
def test_at_least_99_percent_of_the_kernels_time_is_joined(path: Path) -> None:
    profile = _profile(path)
    apart = [row.name for row in profile.launches if row.graph is None and not row.stack]
    assert profile.joined_us >= 0.99 * profile.device_us, apart


@pytest.mark.parametrize("path", KEPT, ids=CASES)
def test_each_generated_kernel_of_a_graph_that_ran_has_its_row(path: Path) -> None:
    kept, profile = _kept(path), _profile(path)
    rows = {(row.graph, row.launch): row for row in profile.launches if row.graph is not None}
    called = {graph for graph, _ in rows}
    for at, graph in enumerate(kept.generated):
        for kernel in graph.kernels if at in called else ():
            assert (at, kernel.launch) in rows, kernel.name
            assert rows[at, kernel.launch].us > 0


@pytest.mark.parametrize("path", KEPT, ids=CASES)
def test_all_work_of_the_device_is_in_the_list(path: Path) -> None:
    kept, profile = _kept(path), _profile(path)
    work = [event for event in kept.recording.events if event.on_device]
    listed = sum(row.count for row in profile.launches) * profile.calls
    if kept.recording.on_device:
        assert listed == pytest.approx(len(work))
    else:
        assert not work
        assert listed >= profile.calls


@pytest.mark.parametrize(
    "path", [path for path in KEPT if "-broken-" in path.name], ids=lambda path: path.name
)
def test_the_wait_for_a_value_stands_on_its_line_as_eager_work_there_does(path: Path) -> None:
    kept, profile = _kept(path), _profile(path)
    gaps = [gap for gap in profile.gaps if gap.what == "aten::item"]
    assert {gap.kind for gap in gaps} == {GapKind.SYNC if kept.recording.on_device else GapKind.EAGER}
    (place,) = {(gap.stack[-1].path, gap.stack[-1].line) for gap in gaps}
    assert place[0] == "/fuselight/benchmarks/gpu/record_profiles.py"
    eager = [row for row in profile.launches if row.operator in {"aten::abs", "aten::max"}]
    assert {(row.stack[-1].path, row.stack[-1].line) for row in eager} <= {place}
    assert all(row.kind is LaunchKind.EAGER for row in eager)
    if kept.breaks:
        assert {each.stack[-1].line for each in kept.breaks} == {place[1]}
