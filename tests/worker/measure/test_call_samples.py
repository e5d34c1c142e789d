"""What a sampling thread sees of a call in another thread, and that it leaves no trace."""

from __future__ import annotations

import weakref
from pathlib import Path

import pytest

from fuselight.measure.profile.compile_steps import CallSample, sampling_calls
from fuselight.shared.report import Location

pytestmark = pytest.mark.torch


class Tensor:
    """Something that dies with its last reference."""


def _until_seen(samples: list[CallSample]) -> weakref.ref[Tensor]:
    held = Tensor()
    while not any(sample.name.endswith("_until_seen") for sample in samples):
        sum(range(1000))
    return weakref.ref(held)


def test_objects_of_a_function_are_freed_when_it_returns() -> None:
    with sampling_calls((str(Path(__file__).parent),)) as samples:
        for _ in range(20):  # a look that falls between the return and the question would hide the fault
            samples.clear()
            assert _until_seen(samples)() is None


def test_a_users_function_is_named_with_its_line() -> None:
    with sampling_calls((str(Path(__file__).parent),)) as samples:
        _until_seen(samples)
    location = samples[-1].location
    assert isinstance(location, Location)
    assert location.path == __file__
    assert location.line > _until_seen.__code__.co_firstlineno
