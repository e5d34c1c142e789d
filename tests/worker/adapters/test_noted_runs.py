"""Graphs of AOTAutograd and runs of autograd's engine can be put inside code of ours."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from fuselight.adapters.torch_api.backward_runs import around_backward
from fuselight.adapters.torch_api.dynamo.aot_graphs import replaced_runners

pytestmark = [pytest.mark.torch, pytest.mark.contract]


@pytest.mark.parametrize("backend", ["aot_eager", "aot_eager_decomp_partition"])
def test_each_graph_of_a_debugging_backend_has_another_runner(backend: str) -> None:
    names: list[str] = []

    def replace(graph: torch.fx.GraphModule, runner: Callable[..., Any]) -> Callable[..., Any]:
        def run(args: list[Any]) -> Any:
            names.extend(node.name for node in graph.graph.nodes if node.op == "call_function")
            return runner(args)

        return run

    torch.compiler.reset()
    with replaced_runners(replace):
        compiled = torch.compile(lambda x: x.sin().exp(), backend=backend)
        x = torch.ones(3, requires_grad=True)
        compiled(x).sum().backward()
    assert names[:2] == ["sin", "exp"]
    assert "cos" in names, "the graph of the backward"
    assert x.grad is not None
    torch.compiler.reset()


def test_a_run_of_the_engine_is_inside() -> None:
    runs: list[str] = []

    @contextlib.contextmanager
    def around() -> Iterator[None]:
        runs.append("begins")
        yield
        runs.append("ends")

    x = torch.ones(3, requires_grad=True)
    with around_backward(around):
        torch.autograd.grad(x.sin().sum(), [x])
        torch.autograd.backward([x.sin().sum()])
    torch.autograd.backward([x.sin().sum()])
    assert runs == ["begins", "ends"] * 2
