"""Budgets, candidates and limits of a search."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fuselight.shared.configurations import MODES, ConfigurationError
from fuselight.shared.measurement_plans import TunePlan
from fuselight.shared.protocol import Limits
from fuselight_server.explain.searches.planning import budget_seconds, candidates, scaled


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("120", 120), ("120s", 120), ("2m", 120), ("1m30s", 90), (" 1.5m ", 90), ("1min", 60), ("2m 5", 125), (".5m", 30)],
)  # fmt: skip
def test_a_budget_is_seconds_or_minutes(text: str, seconds: float) -> None:
    assert budget_seconds(text) == seconds


@pytest.mark.parametrize("text", ["", "soon", "2h", "-5", "5x", "s", "m", "1e3", "nan"])
def test_another_text_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration: write seconds, as `120s`, or minutes, as `2m`"):
        budget_seconds(text)


def test_a_budget_that_is_shorter_than_a_process_is_refused() -> None:
    with pytest.raises(ValueError, match="too short: write at least 1 second"):
        budget_seconds("0.5s")


@given(st.text(max_size=12))
def test_every_text_is_a_budget_or_refused(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert budget_seconds(text) >= 1


def test_candidates_are_read_and_named_once() -> None:
    assert candidates([" max-autotune ", "default + freezing=True", "default+freezing=True", "eager", "default"]) == (
        "max-autotune",
        "default+freezing=True",
    )  # fmt: skip


@pytest.mark.parametrize("name", ["written", "backend:aot_eager"])
def test_what_no_tuned_file_can_hold_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name}.* cannot be tried: .*with Inductor"):
        candidates([name])


def test_a_misspelled_candidate_is_refused_with_an_offer() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'max-autotune'"):
        candidates(["maxautotune"])


def test_a_search_has_time_for_its_budget_and_for_default_and_memory_for_its_processes() -> None:
    plan = TunePlan(budget_seconds=100.0, limit_seconds=50.0, jobs=2)
    limits = scaled(Limits(seconds=1.0, memory_mb=10), plan)
    assert (limits.seconds, limits.memory_mb) == (100 + 2 * 50 + 60, 10 * 7)
    assert scaled(Limits(), TunePlan(limit_seconds=0.0)).seconds == 0, "no limit"
    assert scaled(Limits(), TunePlan(modes=MODES)).seconds > scaled(Limits(), TunePlan()).seconds
