"""Partial compilation of a captured graph: one range of operators is compiled, the rest runs as captured.

Invariant: whichever range is compiled, every operator runs once, in order, under the autocast and grad mode in which it
was captured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx.passes.split_module import split_module

from fuselight.adapters.torch_api.dynamo import frames, names
from fuselight.capture.dynamo import stacks
from fuselight.shared.report import Stack

Backend = Callable[..., Callable[..., Any]]
"""The `backend` argument of torch.compile: takes a captured graph and its inputs, and returns what to call instead."""

_CALLS = ("call_function", "call_method", "call_module")
_BETWEEN = ("getitem", "_enter_autocast", "_exit_autocast", "_set_grad_enabled")
"""Calls that compute nothing."""
_BEFORE, _INSIDE, _AFTER = range(3)


@dataclass(frozen=True)
class Operator:
    """One call of a captured graph."""

    name: str
    """The name as a user writes it: `torch.relu`; a method by its bare name."""
    stack: Stack
    computes: bool
    """False for calls that only unpack a tuple or change a mode."""


@dataclass(frozen=True)
class Captured:
    """A captured graph, prepared for bisection."""

    compile_id: str | None
    operators: tuple[Operator, ...]
    cuts: tuple[int, ...]
    """Positions where the graph can be cut, as the number of operators before the cut, from 0 to all of them."""


def read_captured(gm: torch.fx.GraphModule) -> Captured:
    """Read a graph before a backend can change it."""
    calls = _calls(gm)
    operators = tuple(
        Operator(names.target_name(node.target), stacks.of_node(node), _bare_name(node) not in _BETWEEN)
        for node in calls
    )
    return Captured(frames.current_compile_id(), operators, tuple(_cuts(calls)))


def compile_stretch(
    gm: torch.fx.GraphModule, inputs: Sequence[Any], backend: Backend, first: int, end: int
) -> Callable[..., Any]:
    """Return a callable for the graph in which `backend` compiles the operators in [`first`, `end`); both are `cuts`.

    Raises what the backend raises.
    """
    calls = _calls(gm)
    if first <= 0 and end >= len(calls):
        return backend(gm, inputs)
    part = {
        node: _BEFORE if index < first else _INSIDE if index < end else _AFTER
        for index, node in enumerate(calls)
    }
    placeholders = [node for node in gm.graph.nodes if node.op == "placeholder"]
    values = {node.name: node.meta.get("example_value") for node in gm.graph.nodes}
    values.update({node.name: value for node, value in zip(placeholders, inputs, strict=False)})
    whole: Any = split_module(gm, gm, part.__getitem__)
    name = f"submod_{_INSIDE}"
    inner = getattr(whole, name)
    unwrap = _return_tuple(inner)
    examples = [values[node.name] for node in inner.graph.nodes if node.op == "placeholder"]
    setattr(whole, name, _Compiled(backend(inner, examples), unwrap=unwrap, grad=torch.is_grad_enabled()))
    run: Callable[..., Any] = whole.forward
    return run


class _Compiled(torch.nn.Module):
    """The compiled range. It runs in the grad mode of its graph, because the rest may have left another mode set."""

    def __init__(self, function: Callable[..., Any], *, unwrap: bool, grad: bool) -> None:
        super().__init__()
        self._function, self._unwrap, self._grad = function, unwrap, grad

    def forward(self, *args: Any) -> Any:
        with torch.set_grad_enabled(self._grad):
            function = self._function(*args)
        return function[0] if self._unwrap else function


def _return_tuple(inner: torch.fx.GraphModule) -> bool:
    """Make a graph return a tuple, as backends expect. Returns whether it returned a single value before."""
    output = next(node for node in inner.graph.nodes if node.op == "output")
    value = output.args[0]
    if isinstance(value, (tuple, list)):
        return False
    output.args = (() if value is None else (value,),)
    inner.recompile()
    return value is not None


def _calls(gm: torch.fx.GraphModule) -> list[torch.fx.Node]:
    return [node for node in gm.graph.nodes if node.op in _CALLS]


def _cuts(calls: Sequence[torch.fx.Node]) -> list[int]:
    """Positions that only tensors and sizes cross, outside of regions that open and close torch state."""
    position = {node: index for index, node in enumerate(calls)}
    last = {  # for each value, the last operator that uses it
        node: max((position.get(user, len(calls)) for user in node.users), default=-1) for node in calls
    }
    cuts, depth = [0], 0
    crossing: list[torch.fx.Node] = []
    for index, node in enumerate(calls, 1):
        depth += _opens(node)
        crossing = [node for node in (*crossing, node) if last[node] >= index and not _may_cross(node)]
        if not crossing and depth == 0 and index < len(calls):
            cuts.append(index)
    return [*cuts, len(calls)] if calls else cuts


def _may_cross(node: torch.fx.Node) -> bool:
    value = node.meta.get("example_value")
    return isinstance(value, (torch.Tensor, torch.SymInt)) or _bare_name(node) == "_enter_autocast"


def _bare_name(node: torch.fx.Node) -> str:
    return names.target_name(node.target).rpartition(".")[2]


def _opens(node: torch.fx.Node) -> int:
    """1 for a call that opens a region, -1 for a call that closes it; autocast is opened again after a cut."""
    name = _bare_name(node)
    if name in _BETWEEN:
        return 0
    if name.startswith("_enter") or "increment_nesting" in name:
        return 1
    return -1 if name.startswith("_exit") or "decrement_nesting" in name else 0
