"""Captured graphs as Python: the printed lines compute what the graph does, with torch alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.utils.checkpoint
from torch import nn

from fuselight.shared.report import RecordedGraph
from fuselight.worker.repro.graph_run import recorded_graph

pytestmark = pytest.mark.torch


def captured(
    function: Callable[..., Any], *args: Any, **options: Any
) -> tuple[RecordedGraph, Sequence[Any], Any]:
    """The first graph of a call, what it was given, and what it returned."""
    graphs: list[tuple[RecordedGraph, Sequence[Any], Any]] = []

    def backend(gm: torch.fx.GraphModule, _inputs: Any) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            kept = [value.detach().clone() if isinstance(value, torch.Tensor) else value for value in given]
            recorded = recorded_graph(gm, given, with_values=True)
            returned = gm.forward(*given)
            graphs.append((recorded, kept, returned))
            return returned

        return run

    torch.compiler.reset()
    torch.compile(function, backend=backend, **options)(*args)
    return graphs[0]


def printed_results(graph: RecordedGraph, given: Sequence[Any]) -> list[Any]:
    """What the printed lines compute."""
    assert graph.unprintable == ""
    names: dict[str, Any] = {"torch": torch}
    tensors = [value for value in given if isinstance(value, torch.Tensor)]
    names.update(zip(graph.inputs, tensors, strict=True))
    for node in graph.nodes:
        exec(node.code if node.is_statement else f"{node.name} = {node.code}", names)  # noqa: S102 - that is the test
    return [names[name] for name in graph.outputs]


def changes_in_place(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[0] = 3.0
    y[1:, None] += 1.0
    y.unfold(1, 1, 2).mul_(2.0)
    first, _ = torch.split(y, 2)
    return -first @ y.t() + torch.nn.functional.gelu(y[:2] ** 2, approximate="tanh").sum()


def makes_tensors(x: torch.Tensor) -> torch.Tensor:
    rows = torch.arange(x.shape[0], device=x.device)
    mask = torch.full((x.shape[0],), float("-inf"), dtype=x.dtype)
    return torch.where(rows > 1, x.sum(1), mask).to(torch.float64).clamp(min=-1e3)


def looks_up(x: torch.Tensor) -> torch.Tensor:
    index = torch.tensor([0, 2])
    return torch.cat([x[index, ...], x.new_zeros(2, x.size(1))], dim=0).softmax(-1)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = torch.utils.checkpoint.checkpoint(
            lambda y: self.layer(y).relu() + 1, x, use_reentrant=False
        )
        return result


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("function", [changes_in_place, makes_tensors, looks_up, Block()])
def test_the_lines_compute_what_the_graph_does(function: Callable[..., Any], *, dynamic: bool) -> None:
    torch.manual_seed(0)
    graph, given, returned = captured(function, torch.randn(4, 6), dynamic=dynamic)
    results = printed_results(graph, given)
    assert len(results) == len(returned)
    for result, expected in zip(results, returned, strict=True):
        torch.testing.assert_close(result, expected)


def test_a_negative_base_is_raised_as_a_whole() -> None:
    graph, _, _ = captured(lambda x: (-2.0) ** x, torch.ones(3))
    assert [node.code for node in graph.nodes] == [f"(-2.0) ** {graph.inputs[0]}"]


def test_a_size_is_read_from_an_input() -> None:
    graph, _, _ = captured(lambda x: x * x.shape[0], torch.ones(5, 3), dynamic=True)
    assert any(node.code.endswith(".shape[0]") or node.code.endswith(".size()") for node in graph.nodes)
    assert not any("5" in node.code for node in graph.nodes)


def test_traits_tell_of_values_without_giving_them() -> None:
    x = torch.tensor([0.123456, -7.891, float("nan"), float("inf")]).t()
    graph, _, _ = captured(lambda x: x + torch.arange(4), x)
    traits = graph.traits[graph.inputs[0]]
    assert (traits.low, traits.high, traits.nan, traits.infinite) == (-7.9, 0.12, True, True)
    assert not traits.negative_infinite
    counting = [known for known in graph.traits.values() if known.is_counting]
    assert [known.dtype for known in counting] == ["int64"]


def test_names_of_the_program_are_in_no_line() -> None:
    class Patient(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.secret_weight = nn.Parameter(torch.ones(3))

        def forward(self, diagnosis: torch.Tensor) -> torch.Tensor:
            outcome = diagnosis * self.secret_weight
            return outcome.exp()

    graph, _, _ = captured(Patient(), torch.ones(3))
    text = " ".join([*graph.inputs, *graph.outputs, *(f"{node.name} {node.code}" for node in graph.nodes)])
    assert "exp" in text
    assert not any(word in text for word in ("secret", "diagnosis", "outcome", "atient"))


def test_an_operator_of_the_program_is_marked() -> None:
    @torch.library.custom_op("reprotest::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(torch.empty_like)
    graph, _, _ = captured(lambda x: twice(x.sin()).cos(), torch.ones(3))
    assert [node.foreign for node in graph.nodes] == ["", "reprotest::twice", ""]
