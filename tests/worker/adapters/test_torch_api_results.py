"""Results of a graph that runs as captured against those of AOTAutograd: what the next graph sees of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils import _pytree as pytree

from fuselight.adapters.torch_api.dynamo import compiled_results
from fuselight.capture.dynamo.backend import AotCapture
from tests.support.case_files import marked

pytestmark = pytest.mark.torch


def view_of_an_intermediate(x: torch.Tensor) -> Any:
    return (x * 2).transpose(0, 1)


def two_views_of_an_intermediate(x: torch.Tensor) -> Any:
    tensor = x * 2
    return tensor.transpose(0, 1), tensor.view(-1)


def intermediate_and_its_view(x: torch.Tensor) -> Any:
    tensor = x * 2
    return tensor, tensor.view(-1)


def views_of_one_operator(x: torch.Tensor) -> Any:
    return (x * 2).chunk(2, dim=1)


def view_of_an_input(x: torch.Tensor) -> Any:
    return x.transpose(0, 1), x + 1


def input_itself(x: torch.Tensor) -> Any:
    return x, x + 1  # nothing is saved for backward: torch 2.14 marks the saved inputs, too


def expanded(x: torch.Tensor) -> Any:
    return x.sum(0, keepdim=True).expand(3, -1)


def no_views(x: torch.Tensor) -> Any:
    return x.sin(), x.sum()


def captured(gm: torch.fx.GraphModule, _inputs: Any) -> Callable[..., Any]:
    return compiled_results.with_compiled_results(gm)


def dims(tensor: torch.Tensor) -> set[int]:
    """The dimensions that the next graph treats as dynamic."""
    names = ("_dynamo_propagated_dynamic_indices", "_dynamo_weak_dynamic_indices")
    return {dim for name in names for dim in getattr(tensor, name, ())}


def seen(function: Callable[..., Any], backend: Any, *, grad: bool, dynamic: bool) -> list[Any]:
    """What the next graph sees of each result: is it a view, which sizes are dynamic, its memory and gradient."""
    torch._dynamo.reset()
    x = torch.arange(24.0).reshape(4, 6).requires_grad_(grad)
    results = pytree.tree_leaves(torch.compile(function, backend=backend, dynamic=dynamic)(x))
    storages = [result.untyped_storage().data_ptr() for result in results]
    return [
        (
            result._base is not None,
            sorted(dims(result)),
            result.stride(),
            result.requires_grad,
            storages.index(result.untyped_storage().data_ptr()),
            result.detach().round(decimals=3).tolist(),
        )
        for result in results
    ]


FUNCTIONS = (
    view_of_an_intermediate,
    two_views_of_an_intermediate,
    intermediate_and_its_view,
    views_of_one_operator,
    view_of_an_input,
    input_itself,
    expanded,
    no_views,
)
FURTHER = {two_views_of_an_intermediate, views_of_one_operator, expanded}
"""Functions whose kinds of results others have, too."""


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
@pytest.mark.parametrize("function", marked(FUNCTIONS, FURTHER), ids=lambda function: function.__name__)
def test_training_results_are_those_of_aot_autograd(function: Callable[..., Any], *, dynamic: bool) -> None:
    real = seen(function, "aot_eager", grad=True, dynamic=dynamic)
    assert seen(function, captured, grad=True, dynamic=dynamic) == real


def all_of_them(x: torch.Tensor) -> Any:
    return [function(x) for function in FUNCTIONS]


@pytest.fixture(scope="module")
def by_inductor() -> list[Any]:
    """All functions in one compile, as Inductor's takes seconds; the kernels make tensors, and no views of them."""
    return seen(all_of_them, "inductor", grad=False, dynamic=True)


def test_inference_results_are_those_of_inductor(by_inductor: list[Any]) -> None:
    assert seen(all_of_them, captured, grad=False, dynamic=True) == by_inductor


def test_results_that_aot_autograd_traces_are_views_where_those_of_inductor_are(
    by_inductor: list[Any],
) -> None:
    """torch guards that a tensor is a view: passed to the next call, that would be compiled again."""
    traced = AotCapture(is_wanted=lambda _gm: True)
    views = [is_view for is_view, *_ in seen(all_of_them, traced, grad=False, dynamic=True)]
    assert views == [is_view for is_view, *_ in by_inductor]
    assert not traced.problems
