"""A number that measures time differs from call to call, and refuses no change; another number does."""

from __future__ import annotations

import time
from typing import Any

import pytest

from fuselight.worker.live.number_changes import DURATION, number_changes, without_durations

CLOCKS: list[dict[str, Any]] = [{"time": time}, {"now": time.perf_counter}, {"clock": time.monotonic}]


@pytest.mark.parametrize("names", CLOCKS)
def test_what_grows_by_no_more_than_the_call_took_is_a_duration(names: dict[str, Any]) -> None:
    changes = {
        "TIMES['step']": "+0.00042",
        "total": "+1.5e-06",
        "new": "0.0006",
        "element": "('float', '0.0006')",
        "mean": "-0.0001",
        "long": "+0.7",
    }
    assert without_durations(changes, 0.5, names) == {
        "TIMES['step']": DURATION,
        "total": DURATION,
        "new": DURATION,
        "element": DURATION,
        "mean": "-0.0001",
        "long": "+0.7",
    }


@pytest.mark.parametrize("change", ["+1", "3", "'a text'", "a tensor", "", "+inf", "+nan", "+x", "-0.1"])
def test_counts_texts_and_other_words_are_no_durations(change: str) -> None:
    assert without_durations({"count": change}, 60.0, {"time": time}) == {"count": change}


def test_without_a_clock_there_are_no_durations() -> None:
    names = {"pytest": pytest, "time": 3.0, "sleep": len}
    assert without_durations({"total": "+0.1"}, 60.0, names) == {"total": "+0.1"}


def test_a_number_changes_by_a_difference_and_others_by_their_value() -> None:
    before: dict[str, float | str] = {"count": 1, "name": "a", "same": 2.0}
    assert number_changes(before, {"count": 3, "name": "b", "same": 2.0, "new": 1}) == {
        "count": "+2",
        "name": "'b'",
        "new": "1",
    }
