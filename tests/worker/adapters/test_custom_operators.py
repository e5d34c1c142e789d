"""Whether a custom operator does what it is declared to do."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from fuselight.adapters.torch_api.custom_operators import KEPT_MEMORY, CustomOperatorCalls, declaration_fault
from fuselight.adapters.torch_api.random_operators import RandomOperatorCalls

pytestmark = pytest.mark.torch

buffer = torch.zeros(3)


def into_buffer(x: torch.Tensor) -> torch.Tensor:
    return buffer.copy_(x)


def into_new(x: torch.Tensor) -> torch.Tensor:
    return x.clone()


@pytest.mark.parametrize(
    ("function", "check"), [(into_buffer, KEPT_MEMORY), (into_new, None)], ids=["kept", "new"]
)
def test_each_call_has_to_return_memory_of_its_own(
    function: Callable[[torch.Tensor], torch.Tensor], check: str | None
) -> None:
    operator = torch.library.custom_op(f"fuselight_tests::{function.__name__}", function, mutates_args=())
    operator.register_fake(torch.empty_like)
    calls = CustomOperatorCalls(lambda: "here")
    with calls:
        operator(torch.ones(3))
    ((known, given),) = calls.calls.items()
    fault = declaration_fault(known, *given)
    assert (fault and fault[0]) == check
    assert calls.stacks[known] == "here"


def test_operators_that_draw_random_numbers_are_kept_with_their_place() -> None:
    places = iter("abcd")
    x = torch.ones(3)
    with RandomOperatorCalls(lambda: next(places)) as calls:
        torch.nn.functional.dropout(x.sin(), 0.5)
        x.clone().normal_().cos()
    assert list(calls.places) == ["a", "b"]
    assert list(calls.places.values())[1] == "normal_"
