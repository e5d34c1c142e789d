"""The page of a search as data."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from fuselight.shared.codec import encode
from fuselight.shared.report import (
    Confirmation,
    Culprit,
    Failure,
    MeasuredMemory,
    RaceSample,
    TuneCandidate,
    Tuned,
    TuneOutcome,
)
from fuselight_server.explain.searches.page import Surroundings, no_search, page
from tests.support.measured import row
from tests.support.reports import FILE, report
from tests.support.tuned import (
    GRAPHS,
    MEMORY,
    TUNED_GRAPHS,
    default_won,
    result,
    search,
    tuned,
    undecided,
)


def page_data(value: Any = None, around: Surroundings | None = None) -> dict[str, Any]:
    shown: dict[str, Any] = encode(
        page(
            value or search(),
            around or Surroundings(),
            uri_of=lambda path: f"file://{path}",
            shown=lambda path: path.rpartition("/")[2],
        )
    )
    json.dumps(shown, allow_nan=False)
    return shown


def test_every_page_has_the_same_keys() -> None:
    none = encode(no_search("file:///m.py", "m.py", "Net", Surroundings(message="press Tune")))
    assert page_data().keys() == none.keys()
    assert page_data(search(of={"finished": False})).keys() == none.keys()
    assert (none["found"], none["message"], none["title"]) == (False, "press Tune", "Net")


def test_a_finished_search_is_whole() -> None:
    shown = page_data(around=Surroundings(file="file:///t.json", file_shown="t.json"))
    assert (shown["found"], shown["partial"], shown["work"]) == (True, False, "inference")
    assert (shown["uri"], shown["path"]) == (f"file://{FILE}", "model.py")
    assert shown["statements"][0].startswith("CUDA graphs and coordinate descent: 1.60×")
    assert {fact["name"] for fact in shown["machine"]} >= {"device", "threads", "torch"}
    decision = shown["result"]
    assert (decision["gain"], decision["gain_high"], decision["us"]) == (1.6, 1.65, 250.0)
    assert "model = torch.compile(" in decision["code"]
    assert "'coordinate_descent_tuning': True" in decision["code"]


def test_a_knob_has_its_ceiling_and_the_reason() -> None:
    graphs, _, _, layout, tf32, optimizer = page_data()["knobs"]
    assert (graphs["label"], graphs["ceiling"], graphs["tried"], graphs["why"]) == (
        "CUDA graphs", 2.0, True, "12 launches",
    )  # fmt: skip
    assert graphs["meaning"]
    assert (layout["tried"], layout["why"]) == (
        False,
        "it cannot gain more than the noise of the timings: 0.4% of a call",
    )
    assert tf32["why"] == "`fuselight.tune.numerics` allows it (`tf32`)"
    assert (optimizer["ceiling"], optimizer["why"]) == (None, "not for inference")


def test_a_candidate_has_its_time_its_gain_and_what_became_of_it() -> None:
    rows = {candidate["name"]: candidate for candidate in page_data()["candidates"]}
    winner = rows[TUNED_GRAPHS]
    assert (winner["outcome"], winner["us"], round(winner["gain"], 3)) == ("winner", 250.0, 1.6)
    assert rows["default"]["gain"] is None
    over_eager = [rows[name]["speedup"] for name in ("eager", "default", TUNED_GRAPHS)]
    assert over_eager == pytest.approx([1.0, 2.0, 3.2])
    assert rows["default+max_autotune_gemm=True"]["why"] == "out of memory. Give it smaller inputs"
    wrong = rows["default+freezing=True"]
    assert (wrong["accurate"], wrong["accuracy"][:12]) == (False, "not as eager")
    skipped = rows["default+combo_kernels=True"]
    assert (skipped["us"], skipped["why"]) == (None, "the budget left no time for its compile")
    assert {row["outcome_words"] for row in rows.values()} >= {"winner", "slower", "failed", "not tried"}


def test_the_race_has_a_series_for_each_candidate() -> None:
    series = page_data()["race"]
    assert [value["name"] for value in series] == ["default", GRAPHS, TUNED_GRAPHS]
    assert series[0]["points"][0] == [70.0, 400.0, 1]
    assert len(series[1]["points"]) == 3
    assert len(series[2]["points"]) == 6


def disturbed(**changes: Any) -> Tuned:
    """A search whose confirming race was slow and gave another gain than its rounds; eager was only in the first."""
    fast = [RaceSample(50.0, 0, name, us) for name, us in (("eager", 400.0), ("default", 100.0))] * 2
    us = {"us": 500.0, "default_us": 1000.0, "gain": 2.0}
    given = {
        "confirmation": Confirmation(**us, low=1.8, high=2.2, rounds=10),
        "result": result(**us, gain_low=1.8),
        "race": (*fast, *tuned().race),
    }
    return tuned(**{**given, **changes})


def test_the_headline_the_statements_the_bars_and_the_table_agree() -> None:
    """The medians over all rounds are 800, 400 and 250 µs."""
    shown = page_data(replace(search(), tuned=disturbed()))
    assert "2.0× over default" in shown["statements"][0]
    assert shown["statements"][1] == "about 8.0× over eager"
    bars = [(value["name"], value["us"], value["estimated"], value["wins"]) for value in shown["comparison"]]
    assert bars == [
        ("eager", 4000.0, True, False), ("default", 1000.0, False, False), (TUNED_GRAPHS, 500.0, False, True),
    ]  # fmt: skip
    rows = {candidate["name"]: (candidate["gain"], candidate["speedup"]) for candidate in shown["candidates"]}
    assert rows[TUNED_GRAPHS] == (2.0, 8.0)
    assert rows["eager"] == (0.25, 1.0)
    assert rows["default"] == (None, 4.0)


def test_eager_has_the_gain_of_its_last_rounds() -> None:
    """It is timed at the start, again after the decision, and with torch's modes, which may be minutes later."""
    again = [RaceSample(96.0, 9, name, us) for name, us in (("default", 1000.0), ("eager", 2000.0))] * 3
    modes = [
        RaceSample(99.0, 10, name, us)
        for name, us in (("default", 900.0), ("eager", 3000.0), ("reduce-overhead", 300.0))
    ] * 3
    shown = page_data(replace(search(), tuned=disturbed(race=(*disturbed().race, *again, *modes))))
    assert shown["statements"][1] == "about 4.0× over eager"
    bars = {value["name"]: value["us"] for value in shown["comparison"]}
    assert (bars["eager"], bars["default"]) == (2000.0, 1000.0)
    rows = {candidate["name"]: (candidate["gain"], candidate["speedup"]) for candidate in shown["candidates"]}
    assert rows["eager"] == (0.5, 1.0)
    assert rows[TUNED_GRAPHS] == (2.0, 4.0)


def test_where_default_wins_the_bars_and_the_table_agree() -> None:
    """The median of eager over all rounds is 800 µs, twice that of `default`; in turn it is 1.25 times."""
    turns = [RaceSample(96.0, 9, name, us) for name, us in (("default", 600.0), ("eager", 750.0))] * 3
    shown = page_data(replace(search(), tuned=default_won(race=(*tuned().race, *turns))))
    bars = [(value["name"], value["us"], value["estimated"], value["wins"]) for value in shown["comparison"]]
    assert bars == [("eager", 500.0, True, False), ("default", 400.0, False, True)]
    rows = {candidate["name"]: candidate["speedup"] for candidate in shown["candidates"]}
    assert rows["default"] == 1.25


def test_a_mode_is_compared_with_the_winner_in_the_rounds_of_both() -> None:
    """`default` was disturbed in them, so its ratio to the mode says nothing."""
    mode = TuneCandidate(
        row("reduce-overhead", 300.0), TuneOutcome.BASELINE, stage=9, started_s=0.0, ready_s=9.0
    )
    rounds = [
        RaceSample(90.0, 9, name, us)
        for name, us in (("default", 5000.0), ("reduce-overhead", 300.0), (TUNED_GRAPHS, 250.0))
    ]
    tuned_target = disturbed(candidates=(*tuned().candidates, mode), race=(*disturbed().race, *rounds))
    bars = {bar["name"]: bar for bar in page_data(replace(search(), tuned=tuned_target))["comparison"]}
    assert (bars["reduce-overhead"]["us"], bars["reduce-overhead"]["estimated"]) == (600.0, True)


def test_without_a_confirming_race_the_winners_time_is_an_estimate() -> None:
    bars = page_data(replace(search(), tuned=disturbed(confirmation=None)))["comparison"]
    assert [(bar["us"], bar["estimated"]) for bar in bars] == [(4000.0, True), (1000.0, False), (500.0, True)]


def test_without_a_decision_the_times_are_medians() -> None:
    bars = page_data(replace(search(), tuned=undecided()))["comparison"]
    assert [(bar["us"], bar["estimated"]) for bar in bars] == [(800.0, False), (400.0, False), (250.0, False)]


def test_a_candidate_without_a_time_has_no_bar() -> None:
    failed = TuneCandidate(row("reduce-overhead", None, failure=MEMORY), TuneOutcome.FAILED)
    tuned_target = disturbed(candidates=(*tuned().candidates, failed))
    assert len(page_data(replace(search(), tuned=tuned_target))["comparison"]) == 3


def test_numbers_that_json_lacks_are_unknown() -> None:
    shown = page_data(search(of={"race": (RaceSample(float("inf"), 1, "default", float("nan")),)}))
    assert shown["race"][0]["points"] == [[None, None, 1]]


def test_a_search_without_a_decision_has_no_result() -> None:
    shown = page_data(replace(search(), tuned=undecided()))
    assert (shown["partial"], shown["result"]) == (True, None)


def test_a_failure_of_the_whole_search_is_said() -> None:
    failure = Failure(Culprit.USER, "inputs", "it has no inputs", "write a directive")
    shown = page_data(report(failures=(failure,)))
    assert (shown["found"], shown["message"]) == (False, "it has no inputs. Write a directive")
    assert "it has no inputs. Write a directive" in page_data(search(failures=(failure,)))["notes"]


def test_the_code_names_what_is_compiled() -> None:
    function = replace(report().target, name="forward_all", kind="function")
    shown = page_data(search(of={"result": result(capability="")}, target=function))
    assert "forward_all = torch.compile(" in shown["result"]["code"]


def test_every_outcome_is_one_that_the_page_knows() -> None:
    assert {candidate["outcome"] for candidate in page_data()["candidates"]} <= {
        outcome.value for outcome in TuneOutcome
    }
    assert tuned().finished


def test_a_candidate_has_its_peak_of_tensors_with_the_estimate() -> None:
    memory = MeasuredMemory(4_000_000, 1_000_000, (), 6_000_000, 0)
    known = TuneCandidate(
        row("reduce-overhead", memory=memory, estimated_bytes=4_400_000), TuneOutcome.SLOWER
    )
    target = disturbed(candidates=(*tuned().candidates, known))
    cells = {row["name"]: row["memory"] for row in page_data(replace(search(), tuned=target))["candidates"]}
    assert cells["reduce-overhead"] == {
        "text": "tensors 4 MB: the estimate is 10% higher; reserved 6 MB, 2 MB of it not used at the peak; "
        "0 B in pieces between tensors at the end",
        "tensor_bytes": 4_000_000,
        "estimated_bytes": 4_400_000,
        "reserved_bytes": 6_000_000,
        "between_bytes": 0,
    }
    assert cells["default"] is None
