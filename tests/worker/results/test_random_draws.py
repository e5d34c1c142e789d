"""Random numbers as distributions: what rounding moves is not another distribution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from fuselight.measure.accuracy.results import CallResults, Value
from fuselight.worker.results.eager_calls import RepeatedCall
from fuselight.worker.results.random_draws import compared_draws

pytestmark = pytest.mark.torch


@dataclass
class DrawingCall:
    """A call whose result is random numbers times a factor of each mode."""

    eager_factor: float
    compiled_factor: float
    float64_factor: float | None
    """None: the call does not run in float64."""
    float64_calls: int = 0
    eager_step: float = 5.0
    """A result that is not random."""
    compiled_step: float = 5.0

    def eager(self, _mode: object = None, begin: Callable[[], None] | None = None) -> Any:
        return self._record(self.eager_factor, begin, self.eager_step)

    def repeated(self, _function: object, *, compiled: bool, begin: Callable[[], None]) -> Any:
        assert compiled
        return self._record(self.compiled_factor, begin, self.compiled_step)

    def float64(self, begin: Callable[[], None]) -> tuple[CallResults | None, str]:
        self.float64_calls += 1
        if self.float64_factor is None:
            return None, "it refuses another dtype"
        return self._record(self.float64_factor, begin).results, ""

    def _record(self, factor: float, begin: Callable[[], None] | None, step: float = 5.0) -> Any:
        if begin is not None:
            begin()
        tensor = torch.rand(500, dtype=torch.float64) * factor
        steps = torch.full((), step, dtype=torch.float64)
        values = (
            Value("gradient of bias", tensor, "torch.float64", (500,)),
            Value("buffer steps", steps, "torch.float64", ()),
        )
        return SimpleNamespace(raised="", results=CallResults(values=values))


def compared(call: DrawingCall) -> str:
    with torch.random.fork_rng():
        return compared_draws(cast("RepeatedCall", call), lambda: None).why


@pytest.mark.parametrize(
    ("eager", "compiled", "float64", "is_named"),
    [
        (0.015, 0.0077, 0.0075, False),  # bfloat16 in eager mode adds up to more
        (1.0, 0.9, 0.95, False),
        (1.0, 0.5, 1.0, True),
        (1.01, 0.5, 1.0, True),
        (1.0, 0.5, None, True),
    ],
)
def test_a_shift_counts_if_compiled_code_is_farther_from_float64_than_eager_mode(
    *, eager: float, compiled: float, float64: float | None, is_named: bool
) -> None:
    why = compared(DrawingCall(eager, compiled, float64))
    assert why.startswith("gradient of bias has another distribution: ") is is_named


def test_equal_distributions_need_no_call_in_float64() -> None:
    call = DrawingCall(1.0, 1.0, 1.0)
    assert not compared(call)
    assert not call.float64_calls


@pytest.mark.parametrize(("step", "count"), [(5.0, 2), (5.01, 2), (6.0, 0)])
def test_results_count_as_compared_if_what_is_not_random_is_the_same(step: float, count: int) -> None:
    with torch.random.fork_rng():
        draws = compared_draws(
            cast("RepeatedCall", DrawingCall(1.0, 1.0, 1.0, compiled_step=step)), lambda: None
        )
    assert (draws.why, draws.compared) == ("", count)
