"""The contract with torch's comparison of results: its rules, as docs/measuring.md states them."""

from __future__ import annotations

import importlib
import inspect

import pytest
import torch

from fuselight.adapters.torch_api.inductor import measurement

pytestmark = pytest.mark.torch

EAGER = torch.linspace(1, 2, 2000)
"""Long enough for the smaller of the suite's multipliers."""


def test_it_accepts_its_arguments() -> None:
    same = importlib.import_module("torch._dynamo.utils").same
    parameters = inspect.signature(same).parameters
    assert list(parameters)[:2] == ["ref", "res"]
    assert {"fp64_ref", "cos_similarity", "tol", "equal_nan", "log_error"} <= set(parameters)


@pytest.mark.parametrize(
    ("error", "eager_error", "right"),
    [
        (5e-5, 0.0, True),  # within the tolerance
        (1e-2, 0.0, False),
        (1.9e-2, 1e-2, True),  # at most twice as far from float64 as eager
        (2.2e-2, 1e-2, False),
    ],
)
def test_eager_may_be_inaccurate(error: float, eager_error: float, right: bool) -> None:  # noqa: FBT001
    eager, compiled = EAGER - eager_error, EAGER + error
    assert measurement.same(eager, compiled, EAGER.double(), tolerance=1e-4) is right


def test_half_precision_has_more_room() -> None:
    half = [(EAGER + error).half() for error in (-1e-2, 2.8e-2, 3.5e-2)]
    assert measurement.same(half[0], half[1], EAGER.double(), tolerance=1e-4)
    assert not measurement.same(half[0], half[2], EAGER.double(), tolerance=1e-4)


def test_without_float64_the_cosine_decides() -> None:
    assert measurement.same(EAGER, EAGER * 3, None, tolerance=1e-4, cosine=True)
    assert not measurement.same(EAGER, EAGER.flip(0) - 1.5, None, tolerance=1e-4, cosine=True)
    assert not measurement.same(EAGER, EAGER * 3, None, tolerance=1e-4)


def test_a_failure_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert not measurement.same(EAGER, EAGER + 1, EAGER.double(), tolerance=1e-4)
    assert not caplog.records


def test_changes_in_place_are_counted() -> None:
    tensor = torch.ones(2)
    before = measurement.version_of(tensor)
    tensor.add_(1)
    assert measurement.version_of(tensor) != before
    with torch.inference_mode():
        assert measurement.version_of(torch.ones(2)) is None
