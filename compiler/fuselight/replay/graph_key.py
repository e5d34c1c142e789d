"""The key of a captured graph: for which graphs a tuned result holds.

Invariant: the key is the same in every process and changes with each operator, argument, dtype, size, stride and
gradient flag that Inductor sees. Names, values of tensors, addresses and positions in the source do not count. Of
parameters the strides do not count as long as they are dense, because `channels_last` changes them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from fuselight.adapters.torch_api.dynamo import captured_graphs
from fuselight.adapters.torch_api.dynamo.names import dtype_name, target_name
from fuselight.shared.report.tuned import TunedGraph

_CALLS = ("call_function", "call_method", "call_module")
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_NUMBERED = frozenset({"kernel_idx", "constant_args_idx"})
"""Arguments of a user's Triton kernel that count kernels in this process."""
_LENGTH = 24
"""Hexadecimal digits of a key: 96 bits."""


def tuned_graph(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> TunedGraph:
    """The key of a graph that Dynamo captured, before anything has changed it."""
    texts = _GraphText()
    key = _key(texts, gm, inputs)
    operators = sum(node.op in _CALLS for node in gm.graph.nodes)
    return TunedGraph(key, tuple(texts.shown), operators)


def keys_by_gradients(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> dict[str, bool]:
    """The keys that a graph would have if all of its parameters had this `requires_grad`."""
    return {_key(_GraphText(gradients=gradients), gm, inputs): gradients for gradients in (True, False)}


def _key(texts: _GraphText, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> str:
    lines = texts.read(gm, inputs)
    lines.append(captured_graphs.autocast_state())
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:_LENGTH]


class _GraphText:
    """A graph as text in which everything that may differ between processes is numbered by its first use."""

    def __init__(self, *, gradients: bool | None = None) -> None:
        """`gradients` stands for the `requires_grad` of the parameters, None for their own."""
        self._gradients = gradients
        self.shown: list[str] = []
        """Tensor inputs without parameters, for the reader."""
        self._symbols: dict[str, str] = {}

    def read(self, gm: torch.fx.GraphModule, inputs: Sequence[Any] = ()) -> list[str]:
        """The lines of a graph; `inputs` are the real tensors by position, where they are known."""
        numbers: dict[torch.fx.Node, str] = {}
        lines: list[str] = []
        position = 0
        for node in gm.graph.nodes:
            name = numbers[node] = f"%{len(numbers)}"
            if node.op == "placeholder":
                given = inputs[position] if position < len(inputs) else None
                position += 1
                lines.append(f"{name} = {self._input(node, given)}")
            elif node.op == "get_attr":
                lines.append(f"{name} = {self._attribute(gm, str(node.target))}")
            else:
                arguments = self._value(node.args, numbers.__getitem__)
                named = {key: value for key, value in node.kwargs.items() if key not in _NUMBERED}
                target = self._target(gm, node)
                lines.append(
                    f"{name} = {node.op} {target} {arguments} {self._value(named, numbers.__getitem__)}"
                )
        return lines

    def _target(self, gm: torch.fx.GraphModule, node: torch.fx.Node) -> str:
        if node.op == "output":
            return ""
        if node.op == "call_module":
            module = gm.get_submodule(str(node.target))
            sizes = [
                f"{dtype_name(parameter.dtype)}{list(parameter.shape)}" for parameter in module.parameters()
            ]
            return _ADDRESS.sub("", f"{module!r} {sizes}")
        return target_name(node.target)

    def _attribute(self, gm: torch.fx.GraphModule, path: str) -> str:
        attribute: Any = gm
        for name in path.split("."):
            attribute = getattr(attribute, name, None)
        if isinstance(attribute, torch.fx.GraphModule):
            inner = self.read(attribute)
            return "graph {" + "; ".join(inner) + "}"
        if isinstance(attribute, torch.Tensor):
            return self._tensor(attribute, attribute.stride())
        return type(attribute).__qualname__

    def _input(self, node: torch.fx.Node, given: object) -> str:
        value = captured_graphs.example_value(node)
        if not isinstance(value, torch.Tensor):
            return f"input {type(value).__name__} {self._value(value, str)}"
        if captured_graphs.is_of_module(node, given):
            strides: Any = "dense" if _is_dense(value) else value.stride()
            is_free = isinstance(given, torch.nn.Parameter) and (
                value.is_floating_point() or value.is_complex()
            )
            return f"module {self._tensor(value, strides, gradients=self._gradients if is_free else None)}"
        self.shown.append(f"{dtype_name(value.dtype)}[{', '.join(str(size) for size in value.shape)}]")
        return f"input {self._tensor(value, value.stride())}"

    def _tensor(self, value: torch.Tensor, strides: Any, *, gradients: bool | None = None) -> str:
        kind = "" if type(value).__module__.startswith("torch") else type(value).__qualname__
        sizes = self._value(tuple(value.shape), str)
        stored = strides if isinstance(strides, str) else self._value(tuple(strides), str)
        gradient = "grad" if (value.requires_grad if gradients is None else gradients) else ""
        return f"{kind}{value.dtype} {sizes} {stored} {value.device.type} {gradient}"

    def _value(self, value: Any, number: Callable[[Any], str]) -> str:
        if isinstance(value, torch.fx.Node):
            return number(value)
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            return self._symbolic(value)
        if isinstance(value, torch.Tensor):
            return self._tensor(value, value.stride())
        inner = _inner_values(value)
        if inner is not None:
            return f"{type(value).__name__}[{', '.join(self._value(result, number) for result in inner)}]"
        return _plain_text(value)

    def _symbolic(self, value: Any) -> str:
        """An expression of sizes, with symbols numbered by their first use, and the range of each at its first use."""
        text, symbols = captured_graphs.expression_of(value)
        for name, bounds in symbols:
            if name not in self._symbols:
                self._symbols[name] = f"s{len(self._symbols)}"
                text = f"{text} with {name} in {bounds}"
        return re.sub(r"[A-Za-z_]\w*", lambda match: self._symbols.get(match[0], match[0]), text)


def _inner_values(value: Any) -> Sequence[Any] | None:
    """The values within a container, in an order that is the same in every process; None if it is none."""
    if isinstance(value, (list, tuple)):
        return value
    if isinstance(value, Mapping):
        return [result for item in sorted(value.items(), key=lambda item: str(item[0])) for result in item]
    if isinstance(value, slice):
        return (value.start, value.stop, value.step)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    return None


def _plain_text(value: Any) -> str:
    if isinstance(value, torch.device):
        return value.type
    if callable(value) and not isinstance(value, torch.dtype):
        return target_name(value)
    return _ADDRESS.sub("", repr(value))


def _is_dense(value: torch.Tensor) -> bool:
    """Whether a tensor's elements fill its storage in some order of the dimensions."""
    expected: Any = 1
    by_stride = sorted(
        (
            pair
            for pair in zip(value.stride(), value.shape, strict=True)
            if captured_graphs.is_not_one(pair[1])
        ),
        key=lambda pair: captured_graphs.size_of(pair[0]),
    )
    for stride, size in by_stride:
        if captured_graphs.size_of(stride) != expected:
            return False
        expected *= captured_graphs.size_of(size)
    return True
