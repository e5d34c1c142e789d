"""Joins and sums on recordings of real profiles: benchmarks/gpu/record_profiles.py makes them, and each says how."""

from __future__ import annotations

import functools
import statistics
from pathlib import Path

import pytest

from benchmarks.gpu.kept_profiles import FOLDER, KeptProfile, read
from fuselight.measure import steady_state
from fuselight.measure.profile.join import read_profile
from fuselight.measure.profile.recording import EventKind
from fuselight.shared.report import GapKind, LaunchKind, Profile

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
def test_a_recording_describes_its_subject(path: Path) -> None:
    entries = _kept(path).recording.made
    assert all(entries[what] for what in ("case", "device", "python", "torch", "command"))
    assert entries["case"].replace("/", "-") in path.name
    assert entries["case"] in entries["command"]


@pytest.mark.parametrize("path", KEPT, ids=CASES)
def test_the_host_limits_every_recorded_call_of_a_gpu(path: Path) -> None:
    profile = _profile(path)
    note = steady_state.host_bound_note(profile, profile.wall_us)
    assert (note is not None) == path.name.startswith("h200"), "small models, and the profiler is on"
    assert note is None or f"kernels run for {profile.kernel_us / profile.wall_us:.0%} of a call" in note


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


ON_A_GPU = [path for path in KEPT if not path.name.startswith("cpu-")]


@pytest.mark.parametrize("path", ON_A_GPU, ids=lambda path: path.name)
def test_kernel_times_equal_cuptis_events_read_by_hand(path: Path) -> None:
    """By name and call, from the events alone: the median over the calls.

    A library's call that launches several kernels is one row, by the name of the longest: those are not compared.
    """
    kept, profile = _kept(path), _profile(path)
    calls = len(kept.recording.windows)
    by_hand: dict[str, list[list[float]]] = {}
    for event in kept.recording.events:
        if event.kind is EventKind.KERNEL:
            at = sum(window.start_ns <= event.start_ns for window in kept.recording.windows) - 1
            by_hand.setdefault(event.name, [[] for _ in range(calls)])[at].append(event.ns / 1e3)
    compared = 0
    for name, times in by_hand.items():
        rows = [row for row in profile.launches if row.name == name]
        count = sum(row.count for row in rows)
        if count and {len(call) for call in times} == {count}:
            by_call = statistics.median(sum(call) for call in times)
            assert sum(row.us for row in rows) == pytest.approx(by_call, rel=0.05), name
            compared += 1
    assert compared >= len(by_hand) / 2


@pytest.mark.parametrize(
    "path", [path for path in KEPT if "-broken-" in path.name], ids=lambda path: path.name
)
def test_the_wait_for_a_value_is_on_its_line_as_eager_work_there_does(path: Path) -> None:
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
