"""Results of operators have the strides of their decompositions, as where torch decomposes while it traces."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.fx
from torch._inductor.decomposition import select_decomp_table
from torch.fx.experimental import proxy_tensor

from fuselight.adapters.virtual_gpu.decomposed_layouts import laid_out_as_decomposed
from fuselight.capture.inductor import Generation
from fuselight.shared.devices import find

pytestmark = pytest.mark.torch


def joined_to_nothing(x: torch.Tensor) -> torch.Tensor:
    """As caches of keys are filled at the first step: with an empty one."""
    return torch.cat([torch.empty(0), x.transpose(1, 2)], dim=-2).reshape(8, 16, 8)


def joined_channels_last(x: torch.Tensor) -> torch.Tensor:
    return (
        torch.cat([x, x[:, :, :0]], dim=2).permute(0, 3, 1, 2).contiguous(memory_format=torch.channels_last)
    )


def stacked(x: torch.Tensor) -> torch.Tensor:
    return torch.stack([x.transpose(1, 2)]).reshape(-1)


def contiguous(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x, x]).reshape(-1)


def traced(function: Callable[..., Any], table: Any) -> torch.fx.GraphModule:
    """What a trace with these decompositions contains."""
    example = torch.randn(2, 16, 4, 8)
    gm: torch.fx.GraphModule = proxy_tensor.make_fx(function, decomposition_table=table, tracing_mode="fake")(
        example
    )
    return gm


def calls(gm: torch.fx.GraphModule) -> list[tuple[Any, Any, tuple[int, ...]]]:
    """Each operator of a trace, with its arguments that are no nodes, and the strides of its result."""
    return [
        (
            node.target,
            [arg for arg in node.args if not isinstance(arg, torch.fx.Node)],
            node.meta["val"].stride(),
        )
        for node in gm.graph.nodes
        if node.op == "call_function"
    ]


@pytest.mark.parametrize("function", [joined_to_nothing, joined_channels_last, stacked, contiguous])
def test_to_decompose_a_trace_gives_what_torch_gives_while_it_traces(function: Callable[..., Any]) -> None:
    table = select_decomp_table()
    later = traced(traced(function, laid_out_as_decomposed(table)), table)
    assert calls(later) == calls(traced(function, table))


def test_an_operator_stays_one_node() -> None:
    gm = traced(joined_to_nothing, laid_out_as_decomposed(select_decomp_table()))
    (cat,) = gm.graph.find_nodes(op="call_function", target=torch.ops.aten.cat.default)
    assert cat.meta["val"].stride() == (512, 8, 32, 1)


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="this environment has no Triton")
def test_a_reshape_after_a_join_with_an_empty_tensor_is_generated() -> None:
    device = find("h100-sxm")
    assert device is not None
    generation = Generation(device)
    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(joined_to_nothing, backend=generation)(torch.randn(2, 16, 4, 8))
    (graph,) = generation.graphs
    assert graph.failure is None
    assert graph.kernels
