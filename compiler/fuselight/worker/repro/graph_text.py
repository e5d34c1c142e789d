"""A captured graph as lines of Python that import torch alone.

Invariant: a line that cannot be written is an UnprintableError, or of a function that is not torch's, marked `foreign`:
no line means something else than its node.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterator
from typing import Any

import torch

from fuselight.adapters.torch_api.dynamo import names
from fuselight.capture.dynamo import stacks
from fuselight.shared.report import RecordedNode

_INFIX = {
    operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//",
    operator.mod: "%", operator.pow: "**", operator.matmul: "@", operator.and_: "&", operator.or_: "|",
    operator.xor: "^", operator.lshift: "<<", operator.rshift: ">>", operator.eq: "==", operator.ne: "!=",
    operator.lt: "<", operator.le: "<=", operator.gt: ">", operator.ge: ">=",
}  # fmt: skip
_PREFIX: dict[Any, str] = {operator.neg: "-", operator.invert: "~", operator.pos: "+"}
_IN_PLACE = {
    operator.iadd: ("add_", "+"),
    operator.isub: ("sub_", "-"),
    operator.imul: ("mul_", "*"),
    operator.itruediv: ("div_", "/"),
    operator.ifloordiv: ("floor_divide_", "//"),
    operator.ipow: ("pow_", "**"),
    operator.imod: ("remainder_", "%"),
    operator.iand: ("bitwise_and_", "&"),
    operator.ior: ("bitwise_or_", "|"),
}
"""Of a tensor the method, of a number the operator."""
_OF_TORCH = frozenset({"aten", "prims", "prim", "inductor", "higher_order", "quantized", "_c10d_functional"})
_PLAIN = (bool, int, str, type(None), type(Ellipsis), torch.dtype, torch.layout, torch.memory_format)


class UnprintableError(Exception):
    """A graph that cannot be written as Python; the message says why."""


class GraphText:
    """The lines of a graph, with a neutral name for each value."""

    def __init__(self, gm: torch.fx.GraphModule) -> None:
        """Raises UnprintableError."""
        self.inputs: list[str] = []
        self.nodes: list[RecordedNode] = []
        self.outputs: list[str] = []
        self.constants: dict[str, torch.Tensor] = {}
        """Tensors of the graph itself, which become inputs."""
        self.names: dict[torch.fx.Node, str] = {}
        """Of the nodes of `gm`."""
        self._texts: dict[torch.fx.Node, Any] = {}
        """What stands for a node: its name, another expression, or a tuple of these."""
        self._count = 0
        self._read(gm, None)

    def _read(self, gm: torch.fx.GraphModule, given: list[Any] | None) -> tuple[Any, ...]:
        """Add the lines of a graph; `given`: what stands for its inputs, of a graph in another one."""
        arguments = iter(given or ())
        for node in gm.graph.nodes:
            if node.op == "placeholder":
                self._texts[node] = next(arguments) if given is not None else self._input(node)
            elif node.op == "get_attr":
                self._texts[node] = self._attribute(gm, node)
            elif node.op == "output":
                returned = node.args[0] if isinstance(node.args[0], (tuple, list)) else (node.args[0],)
                if given is None:
                    self.outputs = [self.names[item] for item in returned if item in self.names]
                return tuple(self._format(item) for item in returned)
            else:
                self._add(node)
        return ()

    def _new_name(self) -> str:
        self._count += 1
        return f"v_{self._count}_"

    def _input(self, node: torch.fx.Node) -> str:
        name = self.names[node] = self._new_name()
        self.inputs.append(name)
        return name

    def _attribute(self, gm: torch.fx.GraphModule, node: torch.fx.Node) -> Any:
        value: Any = gm
        for part in str(node.target).split("."):
            value = getattr(value, part)
        if isinstance(value, torch.fx.GraphModule):
            return value
        if not isinstance(value, torch.Tensor):
            raise UnprintableError(f"it holds a {type(value).__name__}")
        name = self._input(node)
        self.constants[name] = value
        return name

    def _add(self, node: torch.fx.Node) -> None:
        inner = (
            self._texts.get(node.args[0]) if node.args and isinstance(node.args[0], torch.fx.Node) else None
        )
        if isinstance(inner, torch.fx.GraphModule):
            # A region of its own, as of a checkpoint: its lines stand in the graph around it.
            self._texts[node] = self._read(inner, [self._format(value) for value in node.args[1:]])
            return
        if isinstance(inner, tuple) and node.target is operator.getitem and isinstance(node.args[1], int):
            text = self._texts[node] = inner[node.args[1]]
            if isinstance(text, str) and text.isidentifier():
                self.names[node] = text
            return
        foreign = _foreign(node.target)
        is_statement = node.target is operator.setitem
        code = "" if foreign else self._code(node)
        name = self._new_name()
        stack = stacks.of_node(node)
        uses = tuple(dict.fromkeys(self._uses(node)))
        self.nodes.append(RecordedNode(name, code, uses, is_statement, foreign, stack[-1] if stack else None))
        self.names[node] = name
        self._texts[node] = self._format(node.args[0]) if is_statement else name

    def _uses(self, node: torch.fx.Node) -> Iterator[str]:
        for used in node.all_input_nodes:
            text = self._texts[used]
            yield from (
                part for part in (text if isinstance(text, tuple) else (text,)) if isinstance(part, str)
            )

    def _code(self, node: torch.fx.Node) -> str:
        arguments = [self._format(value) for value in node.args]
        named = [f"{name}={self._format(value)}" for name, value in node.kwargs.items()]
        if node.op == "call_method":
            return f"{arguments[0]}.{node.target}({', '.join([*arguments[1:], *named])})"
        if node.op == "call_module":
            raise UnprintableError("it calls a module")
        text = self._operator(node, arguments)
        return text or f"{_function(node.target)}({', '.join([*arguments, *named])})"

    def _operator(self, node: torch.fx.Node, arguments: list[str]) -> str:
        """The text of an operator of Python; empty for any other function."""
        target: Any = node.target
        if target in _INFIX:
            left = f"({arguments[0]})" if arguments[0].startswith("-") else arguments[0]  # -2 ** x
            text = f"{left} {_INFIX[target]} {arguments[1]}"
        elif target in _PREFIX:
            text = f"{_PREFIX[target]}{arguments[0]}"
        elif target in _IN_PLACE:
            method, sign = _IN_PLACE[target]
            is_tensor = isinstance(_example(node.args[0]), torch.Tensor)
            text = f".{method}({arguments[1]})" if is_tensor else f" {sign} {arguments[1]}"
            text = arguments[0] + text
        elif target in (operator.getitem, operator.setitem):
            text = f"{arguments[0]}[{self._index(node.args[1])}]"
            text += f" = {arguments[2]}" if target is operator.setitem else ""
        elif target is getattr:
            text = f"{arguments[0]}.{node.args[1]}"
        else:
            text = ""
        return text

    def _index(self, value: Any) -> str:
        if isinstance(value, slice):
            parts = ["" if part is None else self._format(part) for part in (value.start, value.stop)]
            return ":".join(parts) + (f":{self._format(value.step)}" if value.step is not None else "")
        if isinstance(value, tuple) and value:
            return ", ".join(map(self._index, value)) + ("," if len(value) == 1 else "")
        return self._format(value)

    def _format(self, value: Any) -> str:
        """Python text of an argument. Raises UnprintableError."""
        if isinstance(value, torch.fx.Node):
            return self._reference(value)
        if isinstance(value, slice):
            return f"slice({', '.join(map(self._format, (value.start, value.stop, value.step)))})"
        if isinstance(value, (tuple, list)):
            parts = ", ".join(map(self._format, value))
            return f"[{parts}]" if isinstance(value, list) else f"({parts}{',' if len(value) == 1 else ''})"
        if isinstance(value, dict):
            return f"{{{', '.join(f'{key!r}: {self._format(item)}' for key, item in value.items())}}}"
        return _constant(value)

    def _reference(self, node: torch.fx.Node) -> str:
        text = self._texts[node]
        if isinstance(text, tuple):
            return f"({''.join(f'{part}, ' for part in text)})"
        if not isinstance(text, str):
            raise UnprintableError("it passes on a graph in another way than a checkpoint does")
        return text


def _constant(value: Any) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, torch.device):
        return f'"{value}"'
    if isinstance(value, (*_PLAIN, float, complex)):
        return "..." if value is Ellipsis else repr(value)
    raise UnprintableError(f"an argument is a {type(value).__name__}")


def _example(value: Any) -> Any:
    return value.meta.get("example_value") if isinstance(value, torch.fx.Node) else value


def _foreign(target: Any) -> str:
    """What a node calls, if it is not torch's."""
    namespace = getattr(target, "namespace", None)
    name = names.qualified_operator(target)
    if name:
        return "" if name.partition("::")[0] in _OF_TORCH else name
    if isinstance(target, str) or namespace in _OF_TORCH:
        return ""
    module = str(getattr(target, "__module__", None) or "")
    if module.partition(".")[0] in {"torch", "_operator", "builtins", "math", ""}:
        return ""
    return f"{module}.{getattr(target, '__name__', '')}"


def _function(target: Any) -> str:
    """The expression that names a function of torch. Raises UnprintableError."""
    module, own = getattr(target, "__module__", None), getattr(target, "__name__", "")
    tries = [names.target_name(target), f"torch.ops.{target}", f"torch.{own}", f"{module}.{own}"]
    for text in tries:
        if text.startswith("torch.") and _resolved(text) is target:
            return text
    if module in {"builtins", "math"}:
        return str(own) if module == "builtins" else f"torch.sym_{own}"
    raise UnprintableError(f"it calls `{names.target_name(target)}`, which no name of torch stands for")


def _resolved(text: str) -> Any:
    value: Any = torch
    for part in text.split(".")[1:]:
        value = getattr(value, part, None)
    return value
