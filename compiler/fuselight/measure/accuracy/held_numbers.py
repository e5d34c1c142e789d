"""Replaces the random numbers that a captured graph draws by numbers that are the same in eager and compiled code.

Inductor may draw in another order than eager, or lay memory out differently, so that the same seed gives other numbers.
Invariant: a mask depends on its size and the position of its operator alone; no generator of the program is touched.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional

_DROPOUT = frozenset({torch.dropout, functional.dropout})
_ATTENTION = functional.scaled_dot_product_attention
_ATTENTION_DROPOUT = 4
"""Position of `dropout_p`."""
_NUMBERS, _FACTOR, _STEP = 1 << 31, 1103515245, 12345
"""A mask is made of the numbers `(element * _FACTOR + operator * _STEP) % _NUMBERS`: exact in integers, and no buffer,
which AOTAutograd would refuse in a graph of Dynamo's."""


def hold_numbers(gm: torch.fx.GraphModule) -> None:
    """Multiply by a fixed mask wherever a graph drops elements out; attention drops none.

    Operators that draw in another way, or whose sizes are dynamic, keep drawing.
    """
    for index, node in enumerate(list(gm.graph.nodes)):
        if node.target is _ATTENTION:
            node.args = (*node.args[:_ATTENTION_DROPOUT], *(0.0 for _ in node.args[4:5]), *node.args[5:])
            node.kwargs = {name: value for name, value in node.kwargs.items() if name != "dropout_p"}
        elif node.target in _DROPOUT:
            _mask(gm, node, index)
    gm.recompile()


def as_captured(gm: torch.fx.GraphModule, _inputs: Sequence[Any], **_options: Any) -> Callable[..., Any]:
    """A backend that runs a graph operator by operator."""
    run: Callable[..., Any] = gm.forward
    return run


def _mask(gm: torch.fx.GraphModule, node: torch.fx.Node, index: int) -> None:
    value: Any = node.meta.get("example_value")
    given = _argument(node, 0, "input", None)
    probability = _argument(node, 1, "p", 0.5)
    is_static = isinstance(value, torch.Tensor) and all(type(size) is int for size in value.shape)
    if (
        not is_static
        or not isinstance(probability, (int, float))
        or not _argument(node, 2, "training", default=True)
    ):
        return
    in_place = _argument(node, 3, "inplace", default=False)
    with gm.graph.inserting_before(node):
        function = gm.graph.call_function(torch.arange, (value.numel(),), {"device": value.device})
        for operator, operand in (
            (torch.mul, _FACTOR),
            (torch.add, index * _STEP),
            (torch.remainder, _NUMBERS),
            (torch.ge, int(probability * _NUMBERS)),
            (torch.Tensor.to, value.dtype),
            (torch.mul, 1 / (1 - probability) if probability < 1 else 0.0),
            (torch.reshape, tuple(value.shape)),
        ):
            function = gm.graph.call_function(operator, (function, operand))
    node.args, node.kwargs = (given, function), {}
    if in_place:
        node.op, node.target = "call_method", "mul_"
    else:
        node.target = torch.mul


def _argument(node: torch.fx.Node, position: int, name: str, default: Any) -> Any:
    return node.args[position] if len(node.args) > position else node.kwargs.get(name, default)
