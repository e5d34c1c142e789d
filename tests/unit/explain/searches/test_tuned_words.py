"""What a search came to, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuselight.shared.report import (
    Confirmation,
    Culprit,
    Failure,
    KnobBound,
    Numerics,
    RaceSample,
    Skip,
    Tuned,
    TuneOutcome,
)
from fuselight.tune.knobs import KNOBS
from fuselight_server.explain.searches import words
from fuselight_server.explain.searches.measurements import gain, over_eager
from tests.support.measured import row
from tests.support.tuned import GRAPHS, TUNED_GRAPHS, default_won, result, tuned, undecided


def test_every_value_has_words() -> None:
    assert set(words.BOUNDS) == set(KnobBound)
    assert set(words.SKIPS) == set(Skip)
    assert set(words.OUTCOMES) == set(TuneOutcome)
    assert set(words.NUMERICS) == set(Numerics)
    assert set(words.LABELS) <= {knob.name for knob in KNOBS}, "labels of knobs that there are"
    assert all(words.knob_meaning(knob.name) for knob in KNOBS)


def test_a_knob_that_is_not_known_is_shown_by_its_name() -> None:
    assert words.knob_label("a_new_knob") == "a new knob"
    assert words.knob_meaning("a_new_knob") == ""
    assert words.configuration_label("default+x=1", ()) == "default+x=1"


def test_a_headline_does_not_call_default_the_fastest_where_eager_may_be_faster() -> None:
    eager, default, *others = default_won().candidates
    timing = default.configuration.wall
    assert timing is not None
    faster = replace(timing, median_us=timing.median_us / 1.7, high_us=timing.high_us)
    candidates = (
        replace(eager, configuration=replace(eager.configuration, wall=faster, device=None)),
        default,
        *others,
    )
    headline = words.headline(default_won(candidates=candidates))
    assert headline.startswith("default: nothing was confirmed to be faster, but eager mode may be (1.70×)")


def test_a_candidate_that_raced_until_the_end_is_not_decided() -> None:
    raced = replace(tuned().candidates[-1], outcome=TuneOutcome.UNFINISHED, stage=3)
    assert words.outcome_words(raced) == "measured, not decided"
    assert words.outcome_words(replace(raced, stage=0)) == "not measured in time"


def test_a_baseline_that_failed_is_no_measured_baseline() -> None:
    eager = tuned().candidates[0]
    assert words.outcome_words(eager) == "baseline"
    failure = Failure(Culprit.ENVIRONMENT, "device", "there is no GPU", "")
    failed = replace(eager, configuration=replace(eager.configuration, failure=failure))
    assert words.outcome_words(failed) == "failed"


def test_the_headline_says_what_was_gained() -> None:
    assert words.headline(tuned()) == (
        "CUDA graphs and coordinate descent: 1.60× over default (at least 1.55×), 250 µs a call instead of 400 µs"
    )
    assert words.headline(default_won()).startswith(
        "default is the fastest: nothing that was tried is faster"
    )
    assert words.headline(undecided()) == (
        "best so far: CUDA graphs and coordinate descent, 1.60× over default, not confirmed"
    )
    kept = tuned(finished=False, confirmation=None)
    assert words.headline(kept) == (
        "best so far: CUDA graphs and coordinate descent, 1.60× over default (at least 1.55×), not confirmed"
    )
    assert words.lens_words(kept) == "Tuned: 1.60× over default, not confirmed"
    assert words.headline(undecided(winner="default")) == "no decision yet"
    only_default = default_won().candidates[:2]
    assert words.headline(default_won(candidates=only_default)).endswith(
        "no knob could gain more than the noise"
    )
    skipped = default_won().candidates[-1]
    assert "the budget ended before another configuration was measured" in words.headline(
        default_won(candidates=(*only_default, skipped))
    )
    failed = default_won().candidates[4]
    assert words.headline(default_won(candidates=(*only_default, failed))) == (
        "default: no other configuration could be measured"
    )
    led = replace(
        tuned().candidates[-1], outcome=TuneOutcome.UNCONFIRMED, skipped=None, knobs=("cuda_graphs",)
    )
    varying = Confirmation(us=250.0, default_us=400.0, gain=1.6, low=0.9, high=2.8, rounds=8)
    assert words.headline(default_won(candidates=(*only_default, led), confirmation=varying)) == (
        "default: CUDA graphs led, but the timings vary too much to confirm it. Close other programs and tune again"
    )
    none = tuned(result=None, candidates=(), winner="default")
    assert words.headline(none) == "no decision: default could not be measured"


def test_default_is_not_the_fastest_where_eager_mode_is_faster() -> None:
    def with_eager(us: float) -> Tuned:
        eager, *others = default_won().candidates
        return default_won(candidates=(replace(eager, configuration=row("eager", us)), *others))

    assert words.headline(with_eager(200.0)) == (
        "eager mode is faster than default: 2.0×, and no configuration was confirmed to be faster than default"
    )
    assert words.lens_words(with_eager(200.0)) == "Tuned: eager is faster"
    assert words.headline(with_eager(399.0)).startswith("default is the fastest")
    assert words.lens_words(with_eager(399.0)) == "Tuned: default is fastest"


@pytest.mark.parametrize(
    ("first", "last", "text"),
    [
        (2.0, 1.5, "eager mode is faster than default: 1.50×, and"),
        (2.0, 0.99, "default is the fastest"),  # the last rounds say otherwise
        (0.9, 1.04, "default is the fastest"),  # half of the rounds
        (1.01, 1.01, "default is the fastest"),  # the least noise of a search
        (0.9, 1.4, "default: nothing was confirmed to be faster, but eager mode may be (1.40×)"),
    ],
)
def test_eager_is_faster_if_most_rounds_and_the_last_ones_show_it(
    first: float, last: float, text: str
) -> None:
    rounds = [
        RaceSample(1.0, stage, name, us)
        for stage, ratio in ((1, first), (9, last))
        for _ in range(5)
        for name, us in (("eager", 100.0), ("default", 100.0 * ratio))
    ]
    assert words.headline(default_won(race=tuple(rounds))).startswith(text)


def test_a_few_last_rounds_do_not_make_eager_faster() -> None:
    rounds = [
        RaceSample(1.0, stage, name, us)
        for stage, count, ratio in ((1, 10, 0.9), (9, 2, 10.0))
        for _ in range(count)
        for name, us in (("eager", 100.0), ("default", 100.0 * ratio))
    ]
    assert gain(default_won(race=tuple(rounds)), "eager") == pytest.approx(0.9)


def test_the_statements_say_what_the_decision_rests_on() -> None:
    statements = words.statements(tuned(result=result(fixes=("Use torch.where",))))
    assert statements[1:] == [
        "about 3.2× over eager",
        "the confirming race against default: 10 rounds, gain between 1.55× and 1.65× (95%)",
        "results: passed against float64",
        "the source must have these fixes: Use torch.where",
        "6 configurations measured or started in 95 s of a budget of 120 s, on NVIDIA H200",
    ]
    assert words.statements(default_won())[-1] == "the largest ceiling was 50% of a call, for CUDA graphs"


@pytest.mark.parametrize(
    ("search", "text"),
    [
        (tuned(), "Tuned: 1.60× over default"),
        (default_won(), "Tuned: default is fastest"),
        (undecided(), "Tuned: no decision"),
    ],
)
def test_the_lens_says_the_gain(search: object, text: str) -> None:
    assert words.lens_words(search) == text  # type: ignore[arg-type]


def test_progress_names_the_best_so_far() -> None:
    assert words.progress_best(undecided()) == "best so far CUDA graphs and coordinate descent 1.60×"
    assert words.progress_best(undecided(winner="default")) == ""


def test_a_gain_is_that_of_the_rounds_that_both_have() -> None:
    assert gain(tuned(), TUNED_GRAPHS) == pytest.approx(1.6)
    assert gain(tuned(), GRAPHS) == pytest.approx(400 / 260)
    assert gain(tuned(race=()), GRAPHS) == pytest.approx(400 / 260), "of the medians"
    assert gain(tuned(), "default") is None
    assert gain(tuned(), "default+max_autotune_gemm=True") is None, "it failed"
    assert over_eager(tuned(), TUNED_GRAPHS) == pytest.approx(3.2)


def test_gains_that_contradict_the_times_say_nothing_of_eager() -> None:
    """Eager is timed next to `default` alone, which was ten times as slow in these rounds."""
    unsteady = [RaceSample(95.0, 9, name, us) for name, us in (("default", 4000.0), ("eager", 800.0)) * 3]
    search = tuned(race=(*tuned().race, *unsteady))
    assert over_eager(search, TUNED_GRAPHS) is None
    assert not any("over eager" in text for text in words.statements(search))
    assert any("over eager" in text for text in words.statements(tuned()))


def test_a_reason_is_as_exact_as_it_is_known() -> None:
    assert words.why_skipped(Skip.NOISE, "0.4% of a call") == f"{words.SKIPS[Skip.NOISE]}: 0.4% of a call"
    assert words.why_skipped(Skip.ABSENT, "nothing was recompiled") == "nothing was recompiled"
    assert words.why_skipped(Skip.BUDGET, "") == words.SKIPS[Skip.BUDGET]
    assert words.why_skipped(None, "12 launches") == ""
