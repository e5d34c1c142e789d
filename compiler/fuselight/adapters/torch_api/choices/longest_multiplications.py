# ruff: noqa: SLF001 - private names are this package's business
"""Has Inductor time implementations only of the multiplications and convolutions that take the longest.

`max_autotune_gemm` compiles and times some twenty kernels for each multiplication of other sizes, which takes seconds
each, also where the whole of them takes a hundredth of a call. On a GPU, of each that is timed only the most promising
kernels are. Invariant: what is timed depends on the graph and the GPU alone, by an estimate, never on a measurement;
the other multiplications get the library's implementation, as if it had won.
"""

from __future__ import annotations

import contextlib
import importlib
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from fuselight.adapters.torch_api.choices.promising_kernels import promising
from fuselight.adapters.torch_api.inductor.size_hints import size_hint
from fuselight.adapters.torch_api.patching import wrapped

_PROMISING = 6
"""Kernels that are timed against the library's for each multiplication."""
_LEAST_SHARE = 0.01
"""The part of the estimated time of all multiplications below which no choice can matter."""
_OPERATIONS = {2: 5e14, 4: 5e13}
"""Operations per second by bytes of an element, of a recent data-center GPU: they decide an order, no more."""
_SLOWEST = 5e13
_BANDWIDTH = 2.5e12
"""Bytes per second of the same GPU."""
_START = 2e-6
"""Seconds that the smallest kernel takes."""
_LINEAR = frozenset({"_linear_pointwise", "_mkl_linear"})
"""Operators of oneDNN and MKL, for which torch has no formula: the input's last size is what is summed over."""

_CONVOLUTION, _NOT_TIMED = "convolution", "convolution_backward"
"""The second has a formula, too, but Inductor leaves it to the library, or has an option of its own for it."""


@contextlib.contextmanager
def autotuning_longest(count: int) -> Iterator[None]:
    """While Inductor compiles within the block, it times the `count` longest multiplications of each graph only.

    Those of equal sizes count as one. A multiplication whose time cannot be estimated is left to Inductor, and so is
    one for which the library is no candidate.
    """
    graph: Any = importlib.import_module("torch._inductor.graph")
    select: Any = importlib.import_module("torch._inductor.select_algorithm")

    def run(real: Callable[..., Any], lowering: Any, *args: Any) -> Any:
        lowering._fuselight_short = _shorter(lowering.module.graph.nodes, count)
        return real(lowering, *args)

    with (
        wrapped(graph.GraphLowering, "run", run),
        wrapped(select.AlgorithmSelectorCache, "__call__", _fewer_candidates),
    ):
        yield


def _fewer_candidates(
    real: Callable[..., Any], selector: Any, name: str, choices: Any, *args: Any, **named: Any
) -> Any:
    """Leave the promising candidates to one of the longest multiplications, and one to the others: it is not timed.

    The first of the library's is what Inductor takes without timing. (A later one of `addmm` adds a bias that is
    expanded to a matrix, which is slower than the library's own addition of a vector.)
    """
    lowering: Any = sys.modules["torch._inductor.virtualized"].V.graph
    short: frozenset[torch.fx.Node] | None = getattr(lowering, "_fuselight_short", None)
    every = list(choices)
    if short is None:  # a graph that Inductor makes of a choice
        return real(selector, name, every, *args, **named)
    if getattr(lowering, "current_node", None) in short:
        library = sys.modules["torch._inductor.select_algorithm"].ExternKernelCaller
        every = next(([value] for value in every if isinstance(value, library)), every)
        return real(selector, name, every, *args, **named)
    nodes = args[0] if args else named["input_nodes"]
    layout = args[1] if len(args) > 1 else named["layout"]
    return real(selector, name, promising(every, nodes, layout, _PROMISING), *args, **named)


def _shorter(nodes: Sequence[torch.fx.Node], count: int) -> frozenset[torch.fx.Node]:
    """The multiplications and convolutions of a graph that are not among the longest."""
    alike: dict[str, list[torch.fx.Node]] = {}
    seconds: dict[str, float] = {}
    for node in nodes:
        expected = _expected_seconds(node)
        if expected is not None:
            key = f"{node.target} {pytree.tree_map(_layout, (node.args, node.kwargs))}"
            alike.setdefault(key, []).append(node)
            seconds[key] = seconds.get(key, 0.0) + expected
    least = _LEAST_SHARE * sum(seconds.values())
    longest = sorted((key for key in seconds if seconds[key] >= least), key=lambda key: -seconds[key])[:count]
    return frozenset(node for key, nodes in alike.items() if key not in longest for node in nodes)


def _expected_seconds(node: torch.fx.Node) -> float | None:
    """Roughly how long the operator of a node takes on a GPU; None if it is no multiplication or of unknown sizes."""
    packet = getattr(node.target, "overloadpacket", node.target)
    result = node.meta.get("val")
    tensors = [leaf for leaf in pytree.tree_leaves((_values(node), result)) if isinstance(leaf, torch.Tensor)]
    if node.op != "call_function" or not isinstance(packet, torch._ops.OpOverloadPacket) or not tensors:
        return None
    try:
        operations = _operations(packet, node, result)
        moved = sum(math.prod(_numbers(tensor.shape)) * tensor.element_size() for tensor in tensors)
    except Exception:  # noqa: BLE001 - of a formula of torch's, or a size that depends on data
        return None
    if operations is None:
        return None
    per_second = _OPERATIONS.get(tensors[0].element_size(), _SLOWEST)
    return max(operations / per_second, moved / _BANDWIDTH, _START)


def _operations(packet: Any, node: torch.fx.Node, result: Any) -> int | None:
    """Operations of a multiplication or convolution; None for another operator."""
    if packet.__name__ in _LINEAR and isinstance(result, torch.Tensor):
        source: Any = node.args[0]
        return 2 * math.prod(_numbers(result.shape)) * _numbers(source.meta["val"].shape)[-1]
    flops: Any = importlib.import_module("torch.utils.flop_counter")
    formula = flops.flop_registry.get(packet)
    if formula is None or "attention" in packet.__name__ or packet.__name__ == _NOT_TIMED:
        return None
    if packet.__name__ == _CONVOLUTION and not _has_templates(node):
        return None
    args, named = pytree.tree_map(_shape, (node.args, node.kwargs))
    return int(formula(*args, **named, out_val=pytree.tree_map(_shape, result)))


def _has_templates(convolution: torch.fx.Node) -> bool:
    """Whether Inductor has kernels of its own for a convolution: not for one with dilation, or a transposed one."""
    *_, dilation, transposed, _output_padding, _groups = convolution.args
    return not transposed and isinstance(dilation, (list, tuple)) and all(step == 1 for step in dilation)


def _values(node: torch.fx.Node) -> list[Any]:
    return [input_node.meta.get("val") for input_node in node.all_input_nodes]


def _shape(argument: Any) -> Any:
    value = argument.meta.get("val") if isinstance(argument, torch.fx.Node) else argument
    if isinstance(value, torch.Tensor):
        return _numbers(value.shape)
    return _number(value) if isinstance(value, torch.SymInt) else value


def _layout(argument: Any) -> Any:
    """What tells the input of an operator from one for which another implementation may be the fastest."""
    value = argument.meta.get("val") if isinstance(argument, torch.fx.Node) else argument
    if not isinstance(value, torch.Tensor):
        return str(value)
    return f"{value.dtype}{list(value.shape)}{list(value.stride())}"


def _numbers(sizes: Sequence[Any]) -> list[int]:
    return [_number(size) for size in sizes]


def _number(size: Any) -> int:
    """The value of a size for the current inputs. Raises ValueError if it depends on data."""
    hint = size_hint(size)
    if hint is None:
        raise ValueError(f"{size} depends on data")
    return hint
