"""The calls after the first one that a search makes before it times a configuration."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from fuselight.configurations import parse_configuration
from fuselight.measure.session import ConfigurationSession
from fuselight.protocol import MeasurePlan

pytestmark = pytest.mark.torch


def session(compiles: int) -> tuple[ConfigurationSession, list[int]]:
    """A session of a target that compiles in each of so many calls after its first; the calls that were made."""
    calls: list[int] = []
    unit: Any = SimpleNamespace(prepare=lambda: lambda: calls.append(len(calls)))
    compiled: Any = SimpleNamespace(configuration=parse_configuration("default"), cudagraphs=False)
    made = ConfigurationSession(
        MeasurePlan(seconds=0.01), torch.device("cpu"), compiled, unit, (), lambda _: None,
        lambda: min(len(calls), compiles),
    )  # fmt: skip
    return made, calls


@pytest.mark.parametrize(("compiles", "made"), [(0, 1), (1, 2), (3, 4), (50, 8)])
def test_calls_are_made_until_one_compiles_nothing(compiles: int, made: int) -> None:
    settled, calls = session(compiles)
    settled.settle()
    assert len(calls) == made
    second = settled.row.second_us
    assert second is not None
    settled.warm()
    assert settled.row.second_us == second, "the second call was made"
    assert settled.row.warm_up_calls == len(calls) - made or compiles > made


def test_without_it_the_warm_up_makes_the_second_call() -> None:
    settled, calls = session(0)
    settled.warm()
    assert settled.row.second_us is not None
    assert settled.row.warm_up_calls == len(calls) - 1
