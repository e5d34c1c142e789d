"""The verdict claims only what the numbers and their spread support, with lines if known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fuselight.shared.report import (
    Clock,
    Culprit,
    Failure,
    GapKind,
    LaunchKind,
    MeasuredConfiguration,
    Report,
    Work,
)
from fuselight_server.base.finding import Finding, SourceLine
from fuselight_server.explain.benchmarks.causes import Cause, Statement
from fuselight_server.explain.benchmarks.timing_stats import (
    LEAST,
    Range,
    change,
    clock_of,
    shown_of,
)
from fuselight_server.explain.benchmarks.verdict import verdict
from fuselight_server.explain.findings import findings_of_measured
from tests.support.measured import benchmark, gap, graph, kernel, measured, profile, ran, row, timing, wrong
from tests.support.reports import FILE, at, broken

FAILURE = Failure(Culprit.ENVIRONMENT, "memory", "out of memory", "give it smaller inputs")


def actual_statements(*rows: MeasuredConfiguration, **parts: Any) -> tuple[Statement, ...]:
    return verdict(benchmark(*rows, **parts))


def causes(*rows: MeasuredConfiguration, **parts: Any) -> list[Cause]:
    return [statement.cause for statement in actual_statements(*rows, **parts)]


def test_faster_says_how_much_and_when_the_compile_has_paid_off() -> None:
    headline, compiled = actual_statements(row("eager", 300.0), row("default", 100.0))
    assert headline.text == "default is 3.0× as fast as eager: 100 µs ± 1% vs. 300 µs ± 1%"
    assert compiled.cause is Cause.COMPILE
    assert compiled.text == "its cold compile takes 2 s, which pays off after about 10,000 calls"


def test_the_fastest_correct_configuration_is_the_headline() -> None:
    headline, *rest = actual_statements(
        row("eager", 300.0), row("default", 100.0), row("max-autotune", 50.0, accuracy=wrong())
    )
    assert headline.text.startswith("default is 3.0×")
    (failed,) = [statement for statement in rest if statement.cause is Cause.ACCURACY]
    assert failed.text == "max-autotune gives different results from eager in output"


def test_the_headline_says_that_all_results_are_wrong() -> None:
    headline, *rest = actual_statements(
        row("eager", 300.0), row("default", 100.0, accuracy=wrong(first=(at(12),)))
    )
    assert headline.text.endswith("its results differ from eager's")
    assert Statement(Cause.ACCURACY, rest[-1].text, SourceLine(FILE, 12), "default") == rest[-1]


def test_slower_says_by_how_much() -> None:
    headline, compiled = actual_statements(row("eager", 100.0), row("default", 150.0))
    assert compiled.text == "its cold compile takes 2 s, which later calls do not recover"
    assert headline == Statement(
        Cause.SLOWER,
        "default takes 1.50× the time of eager: 150 µs ± 1% vs. 100 µs ± 1%",
        configuration="default",
    )


def test_a_difference_within_the_spread_does_not_count() -> None:
    headline = actual_statements(row("eager", 100.0, spread=0.1), row("default", 105.0, spread=0.1))[0]
    assert headline.cause is Cause.EVEN
    assert "within the spread" in headline.text


def test_unsteady_times_are_distinguished_only_if_all_their_rounds_are() -> None:
    def of(us: float) -> MeasuredConfiguration:
        return row("default", wall=timing(us, 0.2, unsteady=True))

    near, far = (
        actual_statements(row("eager", 100.0), of(80.0))[0],
        actual_statements(row("eager", 100.0), of(20.0))[0],
    )
    assert near.cause is Cause.UNSTEADY
    assert near.text == "Too noisy to call: default 48–112 µs, eager 100 µs ± 1%"
    assert far.cause is Cause.FASTER
    assert far.text == "default is 5.0× as fast as eager: 12–28 µs vs. 100 µs ± 1%"


def host_bound(name: str, us: float, *earlier: float) -> MeasuredConfiguration:
    """A configuration on a GPU whose time depends on the host."""
    return row(name, host_bound=True, wall=replace(timing(us), earlier_us=earlier))


def test_readings_of_other_processes_are_a_range_and_the_host_is_named() -> None:
    near = actual_statements(
        host_bound("eager", 5_000.0, 7_700.0, 4_300.0), host_bound("default", 4_200.0, 4_400.0)
    )[0]
    assert near.cause is Cause.UNSTEADY
    assert (
        near.text
        == "Too noisy to call: default 4.2 ms ± 1%, eager 4.3–7.7 ms; the host limits default and eager"
    )
    far = actual_statements(host_bound("eager", 5_000.0, 7_700.0, 4_300.0), row("default", 1_000.0))[0]
    assert far.cause is Cause.FASTER
    assert far.text == "default is 5.0× as fast as eager: 1 ms ± 1% vs. 4.3–7.7 ms; the host limits eager"
    alike = actual_statements(host_bound("eager", 300.0, 302.0), row("default", 100.0))[0]
    assert (
        alike.text == "default is 3.0× as fast as eager: 100 µs ± 1% vs. 300 µs ± 1%; the host limits eager"
    )


@pytest.mark.parametrize(
    ("kind", "cause", "words"),
    [
        (GapKind.GUARDS, Cause.GUARDS, "checking guards"),
        (GapKind.SYNC, Cause.WAITING, "waiting for the device"),
        (GapKind.COPY, Cause.COPIES, "copies between host and device"),
        (GapKind.EAGER, Cause.BREAKS, "calls that were not compiled"),
        (GapKind.HOST, Cause.HOST, "Python and other work on the host"),
    ],
)
def test_a_large_share_of_the_call_is_reported_with_its_line(kind: GapKind, cause: Cause, words: str) -> None:
    shown = profile([ran(0, 60.0)], [gap(kind, 40.0, 14, "aten::item")])
    rest = actual_statements(
        row("eager", 100.0), row("default", 150.0, generated=(graph(kernel(3)),), profile=shown)
    )
    (statement,) = [statement for statement in rest if statement.cause is cause]
    assert statement == Statement(
        cause, f"40% of a call is {words} (aten::item): 40 µs", SourceLine(FILE, 14)
    )


def test_small_costs_are_not_reported() -> None:
    shown = profile([ran(0, 95.0)], [gap(GapKind.GUARDS, 5.0)])
    configuration = row("default", 150.0, generated=(graph(kernel(3)),), profile=shown)
    assert Cause.GUARDS not in causes(row("eager", 100.0), configuration)


def test_launches_suggest_cuda_graphs_only_on_a_gpu() -> None:
    shown = profile([ran(0, 20.0, count=212.0)], [gap(GapKind.LAUNCH, 50.0), gap(GapKind.WRAPPER, 30.0)])
    configuration = row("default", 150.0, cudagraphs=False, profile=shown)

    def text(measured_configuration: MeasuredConfiguration) -> str:
        (statement,) = [
            each
            for each in actual_statements(row("eager", 100.0), measured_configuration)
            if each.cause is Cause.LAUNCHES
        ]
        return statement.text

    assert text(configuration) == "80% of a call is launching 212 kernels, while the device is idle: 80 µs"
    on_gpu = replace(configuration, device=timing(150.0, clock=Clock.DEVICE))
    assert text(on_gpu).endswith("mode='reduce-overhead' replays them as one CUDA graph where possible")
    assert "reduce-overhead" not in text(replace(on_gpu, cudagraphs=True))


def test_shares_of_a_call_that_the_profiler_slows_say_so() -> None:
    shown = profile([ran(0, 20.0, count=9.0)], [gap(GapKind.LAUNCH, 60.0), gap(GapKind.HOST, 20.0)])

    def texts(us: float) -> list[str]:
        statements = actual_statements(row("eager", 100.0), row("default", us, profile=shown))
        return [each.text for each in statements if each.cause in {Cause.LAUNCHES, Cause.HOST}]

    assert all(text[3:].startswith(" of a call is ") for text in texts(90.0))
    slowed = " of a call under the profiler, which takes 100 µs in place of 40 µs, is "
    assert [slowed in text for text in texts(40.0)] == [True, True]


def test_breaks_and_recompilations_are_reported_with_their_line() -> None:
    statements = actual_statements(
        row("eager", 100.0),
        row("default", 150.0, graph_breaks=2, recompiles=1),
        breaks=(broken(at(21)),),
    )
    by_cause = {statement.cause: statement for statement in statements}
    assert by_cause[Cause.BREAKS].place == SourceLine(FILE, 21)
    assert by_cause[Cause.BREAKS].text.startswith("2 graph breaks: ")
    assert by_cause[Cause.RECOMPILATIONS].text.startswith("1 recompilation: ")


def eager(*lines: tuple[int, float]) -> MeasuredConfiguration:
    return row("eager", 100.0, profile=profile([ran(None, us, line=line) for line, us in lines]))


def test_kernels_that_are_slower_than_eager_are_named() -> None:
    shown = profile([ran(0, 90.0), ran(1, 10.0)])
    configuration = row(
        "default", 150.0, generated=(graph(kernel(3, 4), kernel(9, launch=1)),), profile=shown
    )
    statements = actual_statements(eager((3, 20.0), (4, 20.0), (9, 10.0)), configuration)
    (slow,) = [each for each in statements if each.cause is Cause.KERNEL]
    assert slow.text == "the kernels of lines 3-4 take 90 µs, vs. 40 µs in eager: triton_0"
    assert slow.place == SourceLine(FILE, 3)


@pytest.mark.parametrize(
    ("before", "work"),
    [
        (((3, 20.0), (9, 10.0)), Work.INFERENCE),  # what eager does on line 4 is not known
        (((3, 45.0), (4, 45.0)), Work.INFERENCE),  # no longer than eager's
        (((3, 20.0), (4, 20.0)), Work.FORWARD_BACKWARD),  # backward kernels are on other lines in eager
    ],
)
def test_kernels_that_cannot_be_compared_are_not_called_slow(
    before: tuple[tuple[int, float], ...], work: Work
) -> None:
    configuration = row("default", 150.0, generated=(graph(kernel(3, 4)),), profile=profile([ran(0, 90.0)]))
    assert Cause.KERNEL not in causes(eager(*before), configuration, of={"work": work})


def test_memory_traffic_is_reported_where_kernels_are_near_the_bandwidth() -> None:
    configuration = row("default", 150.0, generated=(graph(kernel(3)),), profile=profile([ran(0, 1.2)]))
    (statement,) = [
        each for each in actual_statements(row("eager", 100.0), configuration) if each.cause is Cause.MEMORY
    ]
    assert "100% of the kernel time runs at 70% or more of the device's memory bandwidth" in statement.text
    far = replace(configuration, profile=profile([ran(0, 12.0)]))
    assert Cause.MEMORY not in causes(row("eager", 100.0), far)


def test_eager_is_listed_first_and_failures_last() -> None:
    headline, failed = actual_statements(row("eager", 100.0), row("max-autotune", None, failure=FAILURE))
    assert headline.text == "eager takes 100 µs ± 1%; no other configuration was measured"
    assert failed.text == "max-autotune could not be measured: out of memory"
    (so_far,) = actual_statements(row("eager", 100.0), row("default", None), of={"finished": False})
    assert so_far.text.endswith("; no other configuration has a time yet")
    without, time = actual_statements(row("eager", None, failure=FAILURE), row("default", 100.0))
    assert without.text == ("eager could not be measured, so there is nothing to compare with: out of memory")
    assert time.text == "default takes 100 µs ± 1%"


@pytest.mark.parametrize(("us", "unsteady"), [(100.0, False), (100.0, True), (300.0, False), (20.0, False)])
def test_the_headline_reports_wrong_results(us: float, unsteady: bool) -> None:  # noqa: FBT001
    fast = row("default", wall=timing(us, 0.01, unsteady=unsteady), accuracy=wrong())
    assert actual_statements(row("eager", 100.0), fast)[0].text.endswith("; its results differ from eager's")


def test_slower_is_a_claim_that_the_spread_carries() -> None:
    assert slower(benchmark(row("eager", 100.0), row("default", 150.0))) is not None
    assert slower(benchmark(row("eager", 100.0, spread=0.5), row("default", 150.0))) is None
    assert slower(benchmark(row("eager", 100.0), row("default", 150.0), row("max-autotune", 50.0))) is None
    assert slower(benchmark(row("eager", 100.0), row("default", 150.0, accuracy=wrong()))) is None


def test_overlapping_ranges_and_tiny_differences_are_no_change() -> None:
    assert change(Range(100, 99, 101), Range(112, 111, 113)) == pytest.approx(0.12)
    assert change(Range(100, 90, 110), Range(112, 109, 113)) is None
    less = 100 * (1 + LEAST / 2)
    assert change(Range(100, 100, 100), Range(less, less, less)) is None
    assert change(Range(0, 0, 0), Range(1, 1, 1)) is None


def test_the_devices_clock_counts_if_all_have_it() -> None:
    device = timing(50.0, clock=Clock.DEVICE)
    both = measured(row("eager", device=device), row("default", device=device))
    assert clock_of(both) is Clock.DEVICE
    assert clock_of(measured(row("eager", device=device), row("default"))) is Clock.WALL
    failed = row("max-autotune", None, failure=FAILURE)
    assert clock_of(measured(row("eager", device=device), failed)) is Clock.DEVICE


def test_the_lines_show_what_the_source_compiles_then_default() -> None:
    shown = profile([ran(None, 1.0, line=3, kind=LaunchKind.EAGER)])
    rows = {name: row(name, profile=shown) for name in ("eager", "max-autotune", "default", "written")}

    def name(*names: str) -> str | None:
        configuration = shown_of(measured(*(rows[name] for name in names)))
        return configuration.name if configuration is not None else None

    assert name("eager", "max-autotune", "default", "written") == "written"
    assert name("eager", "max-autotune", "default") == "default"
    assert name("eager", "max-autotune") == "max-autotune"
    assert name("eager") is None


def test_a_wrong_configuration_is_on_lines_only_without_a_correct_one() -> None:
    some = profile([ran(0, 1.0)])
    bad = row("default", profile=some, accuracy=wrong())
    right = row("reduce-overhead", profile=some)
    assert shown_of(measured(row("eager"), bad, right)) == right
    assert shown_of(measured(row("eager"), bad)) == bad


def slower(report: Report) -> Finding | None:
    return next((finding for finding in findings_of_measured(report) if finding.code == "FL802"), None)
