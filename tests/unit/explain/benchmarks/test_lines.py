"""The measured time of lines: the sum over lines is always the sum over all kernels."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuselight.shared.report import (
    GapKind,
    Kernel,
    KernelKind,
    LaunchKind,
    Location,
    MeasuredConfiguration,
    MeasuredLaunch,
)
from fuselight_server.base.finding import SourceLine
from fuselight_server.explain.benchmarks.profile import kernel_of, parts, rates, times_by_line
from fuselight_server.explain.kernels.shares import shares
from tests.support.measured import GPU, gap, graph, kernel, profile, ran, row
from tests.support.reports import FILE, ROOT

ROOTS = (ROOT,)
times = st.floats(0, 1e6)
launches = st.builds(
    MeasuredLaunch,
    name=st.just("k"),
    kind=st.sampled_from(LaunchKind),
    us=times,
    low_us=times,
    high_us=times,
    count=st.floats(0, 9),
    graph=st.none() | st.integers(-1, 2),
    launch=st.none() | st.integers(-1, 4),
    stack=st.lists(st.builds(Location, path=st.just(FILE), line=st.integers(1, 5)), max_size=2).map(tuple),
)
kernels = st.lists(st.lists(st.integers(1, 6), max_size=4), max_size=4).map(
    lambda lines: tuple(kernel(*line, launch=index) for index, line in enumerate(lines))
)


def measured_configuration(
    *measured_launches: MeasuredLaunch, kernels: tuple[Kernel, ...] = ()
) -> MeasuredConfiguration:
    return row("default", generated=(graph(*kernels),), profile=profile(measured_launches))


@given(st.lists(launches, max_size=8), kernels)
def test_nothing_is_counted_twice_and_nothing_is_lost(
    measured_launches: list[MeasuredLaunch], those: tuple[Kernel, ...]
) -> None:
    lines = times_by_line(measured_configuration(*measured_launches, kernels=those), ROOTS)
    for name in ("us", "low", "high"):
        launched = {"us": "us", "low": "low_us", "high": "high_us"}[name]
        assert sum(getattr(line, name) for line in lines) == sum(
            Fraction(round(getattr(launch, launched) * 2**40), 2**40) for launch in measured_launches
        )
    assert len({line.place for line in lines}) == len(lines)


@given(st.lists(launches, min_size=1, max_size=8), st.lists(times, max_size=6))
def test_the_parts_of_the_wall_time_are_the_wall_time(
    measured_launches: list[MeasuredLaunch], gaps: list[float]
) -> None:
    shown = profile(measured_launches, [gap(kind, us) for kind, us in zip(GapKind, gaps, strict=False)])
    assert sum(part.us for part in parts(shown, ROOTS)) == pytest.approx(shown.wall_us)


@pytest.mark.slow
@given(times)
def test_a_time_is_counted_as_it_was_measured(us: float) -> None:
    def counted(us: float) -> Fraction:
        launch = MeasuredLaunch("k", LaunchKind.KERNEL, us=us, low_us=us, high_us=us, count=1.0)
        return sum(
            (line.us for line in times_by_line(measured_configuration(launch), ROOTS)), start=Fraction()
        )

    assert float(counted(us)) == pytest.approx(us, abs=1e-9)
    assert counted(float("nan")) == counted(float("inf")) == Fraction(0)


def test_measured_time_is_divided_among_lines_like_the_estimate() -> None:
    fused = kernel(3, 4, 4)
    line_times = {
        line.place: line
        for line in times_by_line(measured_configuration(ran(0, 30.0), kernels=(fused,)), ROOTS)
    }
    assert {place: line.us / 30 for place, line in line_times.items()} == shares(fused, ROOTS)
    assert line_times[SourceLine(FILE, 3)].fused_with == {SourceLine(FILE, 4)}
    assert [joined for _, joined in line_times[SourceLine(FILE, 3)].launches] == [fused]
    assert line_times[SourceLine(FILE, 3)].range.spread == pytest.approx(0.01)


def test_kernels_without_a_graph_are_on_their_line_or_on_none() -> None:
    (first, second) = times_by_line(measured_configuration(ran(None, 9.0, line=7), ran(None, 1.0)), ROOTS)
    assert (first.place, float(first.us)) == (SourceLine(FILE, 7), 9.0)
    assert [joined for _, joined in first.launches] == [None]
    assert (second.place, float(second.us)) == (None, 1.0)


def test_a_launch_of_an_unknown_kernel_is_not_joined() -> None:
    configuration = measured_configuration(ran(0, 1.0), kernels=(kernel(3),))
    assert kernel_of(configuration, ran(0, 1.0)) == configuration.generated[0].kernels[0]
    assert kernel_of(configuration, ran(5, 1.0)) is None
    assert kernel_of(configuration, replace(ran(0, 1.0), graph=4)) is None


def test_bandwidth_and_rate_are_against_the_limits_of_the_device() -> None:
    moving = rates(ran(0, 2.0), kernel(3), GPU)
    assert moving.bandwidth_gbs == pytest.approx(2400)
    assert moving.of_limit == pytest.approx(0.5)
    assert moving.bound == "memory"
    assert (moving.tflops, moving.intensity) == (None, None)
    computing = rates(ran(0, 10.0), kernel(3, flops=335_000_000, dtype="f32"), GPU)
    assert computing.tflops == pytest.approx(33.5)
    assert computing.of_limit == pytest.approx(0.5)
    assert computing.bound == "compute"
    twice = rates(ran(0, 4.0, count=2.0), kernel(3), GPU)
    assert twice.bandwidth_gbs == pytest.approx(2400), "it ran twice in that time"


def test_a_missing_fact_gives_no_rate() -> None:
    assert rates(ran(0, 2.0), kernel(3, bytes_read=None), GPU).bandwidth_gbs is None
    assert rates(ran(0, 2.0), kernel(3), None).of_limit is None
    assert rates(ran(None, 2.0), None, GPU).bandwidth_gbs is None
    assert rates(ran(0, 0.0), kernel(3), GPU).bandwidth_gbs is None
    library = kernel(3, kind=KernelKind.EXTERN)
    assert rates(ran(0, 2.0), library, GPU).bandwidth_gbs is not None
    assert rates(ran(0, 2.0, count=2.0), library, GPU).bandwidth_gbs is None, "two kernels, or one twice"
