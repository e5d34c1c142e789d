"""The table of searches over models: what counts, what is a dash, and each mean against its goal."""

from __future__ import annotations

import json
from typing import Any

import pytest

from benchmarks import tuned_table
from fuselight.shared.codec import encode
from fuselight.shared.report import (
    Accuracy,
    Clock,
    Confirmation,
    Culprit,
    Failure,
    Machine,
    MeasuredConfiguration,
    Numerics,
    Timing,
    TuneCandidate,
    Tuned,
    TuneOutcome,
    Work,
)

WINNER = "default+triton.cudagraphs=True"


def candidate(
    name: str, us: float | None, *, passed: bool | None = True, first: float = 1e6
) -> TuneCandidate:
    timing = None if us is None else Timing(Clock.DEVICE, us, us, us, 10)
    failure = None if us is not None else Failure(Culprit.COMPILER, "exception", "no memory\nmore", "less")
    accuracy = (
        None
        if name == "eager"
        else Accuracy(passed, why="far off" if passed is False else "", against="float64")
    )
    outcome = TuneOutcome.WINNER if name == WINNER else TuneOutcome.BASELINE
    row = MeasuredConfiguration(name, device=timing, failure=failure, accuracy=accuracy, first_us=first)
    return TuneCandidate(row, outcome)


def line(
    model: str, half: str, *candidates: TuneCandidate, winner: str = WINNER, gain: float = 2.0, **more: Any
) -> dict[str, Any]:
    confirmation = Confirmation(50, 50 * gain, gain, gain - 0.1, gain + 0.1, 10)
    tuned = Tuned(
        Work.INFERENCE, Machine("GPU"), Numerics.EXACT, 60.0, candidates=candidates, winner=winner,
        confirmation=confirmation, seconds=30.0,
    )  # fmt: skip
    entries = {"device": "GPU", "command": "python -m benchmarks.tune_models"}
    row = {
        "model": model,
        "half": half,
        "work": "inference",
        "rows": 1,
        "made": entries,
        "tuned": encode(tuned),
        **more,
    }
    return json.loads(json.dumps(row))  # type: ignore[no-any-return]


def read(*args: Any, **named: Any) -> tuned_table.TunedRow:
    return tuned_table.read_row(line(*args, **named))


def test_a_row_has_the_times_and_the_gain_of_the_confirming_race() -> None:
    row = read("bert", "building", candidate("eager", 300), candidate("default", 100), candidate(WINNER, 50))
    assert dict(row.us) == {"eager": 300, "default": 100, "tuned": 50}
    assert (row.gain, row.interval, row.seconds, row.accuracy) == (
        2.0,
        (1.9, 2.1),
        30.0,
        "passed against float64",
    )
    assert row.over_modes is None, "no other mode was measured"


def test_the_best_mode_is_the_fastest_with_right_results() -> None:
    row = read(
        "bert", "building", candidate("eager", 300), candidate("default", 100), candidate("reduce-overhead", 60),
        candidate("max-autotune", 40, passed=False), candidate("max-autotune-no-cudagraphs", None),
        candidate(WINNER, 50),
    )  # fmt: skip
    assert row.over_modes == pytest.approx(60 / 50)
    assert row.failures == {"max-autotune": "inaccurate: far off", "max-autotune-no-cudagraphs": "no memory"}


def test_a_compile_that_was_late_has_no_seconds() -> None:
    of_search = line("bert", "building", candidate("default", 100), candidate(WINNER, 50))
    late = tuned_table.read_row({**of_search, "alone": {"late": 140.0}})
    assert (late.alone, dict(late.first_seconds)) == (
        {"late": 140.0},
        dict(tuned_table.read_row(of_search).first_seconds),
    )
    timed = tuned_table.read_row({**of_search, "alone": {"first": 60.0}})
    assert timed.first_seconds["max-autotune"] == 60.0


def test_default_as_the_winner_gains_nothing() -> None:
    row = read(
        "bert", "building", candidate("eager", 90), candidate("default", 100), winner="default", gain=0.9
    )
    assert (row.gain, row.interval) == (1.0, None)
    assert row.us["tuned"] == 100


def test_a_failed_search_is_a_row_and_counts_for_no_mean() -> None:
    failed = {"model": "vit", "half": "held out", "work": "inference", "rows": 4, "failure": "no GPU"}
    text = tuned_table.page([tuned_table.read_row(failed)])
    assert "| vit | held out | inference | 4 | - |" in text
    assert "- vit: no GPU" in text
    assert "goal" not in text


def test_the_page_has_means_by_half_and_overall() -> None:
    both = (
        candidate("default", 100),
        candidate("reduce-overhead", 60),
        candidate("max-autotune", 75, first=20e6),
    )
    rows = [
        read("a", "building", *both, candidate(WINNER, 50), gain=4.0),
        read("b", "held out", *both, candidate(WINNER, 60), gain=1.0),
    ]
    text = tuned_table.page(rows)
    assert "- building: 4.00× over `default` (goal 1.20×), models: 1" in text
    assert "- all: 2.00× over `default` (goal 1.20×), models: 2" in text
    assert "- all: 1.095× over the fastest of torch's modes that was measured, models: 2" in text
    assert (
        "- all: 1.095× over the fastest of torch's modes (goal 1.05×), where `max-autotune` was measured, models: 2"
        in text
    )
    assert "- slower than `default`: none" in text
    assert "- searches that took longer than one `max-autotune` compile: a, b" in text, "30 s against 20 s"
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len({line.count("|") for line in table}) == 1
    assert "- command: `python -m benchmarks.tune_models`" in text


def program(us: float | None = None, **more: Any) -> dict[str, Any]:
    timed = {} if us is None else {"us": us, "close": True, "first": 90.0, "timed": 0}
    return {**timed, **more}


def replayed(**programs: dict[str, Any]) -> dict[str, Any]:
    named = {
        "default": program(100),
        "same options": program(40, timed=7),
        "replay": program(40),
        "reduce-overhead": program(50),
        "max-autotune": program(45),
        "max-autotune-no-cudagraphs": program(None, failure="killed after 170 s"),
    }
    return {
        **named, **{name.replace("_", "-"): program for name, program in programs.items()},
        "replayed_over_tuned": 1.03, "replayed_over_same_options": 1.001, "cold_start_over_same_options": 0.9,
    }  # fmt: skip


def test_programs_that_replay_are_compared_with_programs_of_the_modes() -> None:
    of_search = (candidate("eager", 300), candidate("default", 80), candidate(WINNER, 30))
    row = read("bert", "building", *of_search, replayed=replayed())
    assert dict(row.us) == {
        "eager": 300, "default": 100, "reduce-overhead": 50, "max-autotune": 45, "tuned": 40
    }  # fmt: skip
    assert row.over_modes == pytest.approx(45 / 40)
    assert row.failures == {"max-autotune-no-cudagraphs": "killed after 170 s"}
    text = tuned_table.page([row])
    assert "- within 2% of the tuned time, or faster: 0 of 1" in text
    assert "- within 2% of the same options in the same rounds, or faster: 1 of 1" in text
    assert "- longest cold start: 0.90× of that with the same options (goal 1.1×)" in text
    assert "- replays that timed a kernel at start: none" in text
    assert "| bert | 40.0 | 1.030× | 1.001× | 0.90× | 7, 0 | right |" in text


def test_a_replay_is_compared_with_the_same_options_only_where_they_were_ready() -> None:
    of_search = (candidate("default", 80), candidate(WINNER, 30))
    alone = {**replayed(), "replayed_over_same_options": None, "cold_start_over_same_options": None}
    both = [
        read("a", "building", *of_search, replayed=replayed()),
        read("b", "held out", *of_search, replayed=alone),
    ]
    text = tuned_table.page(both)
    assert "- within 2% of the tuned time, or faster: 0 of 2" in text
    assert "- within 2% of the same options in the same rounds, or faster: 1 of 1" in text


def test_programs_with_wrong_results_do_not_count_unless_nothing_can_be_compared() -> None:
    of_search = (candidate("default", 80), candidate(WINNER, 30))
    wrong = replayed(max_autotune=program(45, close=False))
    assert read("a", "building", *of_search, replayed=wrong).over_modes == pytest.approx(50 / 40)
    random = replayed(default=program(100, close=False), max_autotune=program(45, close=False))
    row = read("a", "building", *of_search, replayed=random)
    assert row.over_modes == pytest.approx(45 / 40)
    assert "not comparable |" in tuned_table.page([row])


def test_a_replay_that_failed_or_timed_a_kernel_is_named() -> None:
    of_search = (candidate("default", 80), candidate(WINNER, 30))
    failed = read("a", "building", *of_search, replayed=replayed(replay=program(None, failure="no GPU")))
    timed = read("b", "building", *of_search, replayed=replayed(replay=program(40, timed=3)))
    text = tuned_table.page([failed, timed])
    assert "- replays that timed a kernel at start: a, b" in text
    assert "| no GPU |" in text
    assert failed.over_modes is None


def test_models_without_a_search_are_named() -> None:
    text = tuned_table.page([], ["bert_b1", "gpt2_b1"])
    assert "no search was run yet: bert_b1, gpt2_b1" in text
