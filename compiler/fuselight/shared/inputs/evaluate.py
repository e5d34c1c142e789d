"""Evaluates a parsed directive node by node, so that an error has the exact location in the text.

Invariant: exceptions of user code (`UserCallError`) are separate from errors in a directive (`DirectiveError`): the
first is a failure of the user's program, the second a comment to correct.
"""

from __future__ import annotations

import ast
import builtins
import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeGuard, cast

from fuselight.shared.inputs.corrections import nearest, nearest_dtype
from fuselight.shared.inputs.dtypes import DTYPES, known_dtype
from fuselight.shared.inputs.grammar import OPTIONS, Directive, DirectiveError, TensorSpec, dtype_of

_DEVICES = frozenset({"cpu", "cuda", "mps", "xpu", "meta"})
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.MatMult: operator.matmul,
    ast.LShift: operator.lshift,
    ast.RShift: operator.rshift,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
    ast.BitAnd: operator.and_,
}
_UNARY: dict[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Invert: operator.invert,
    ast.Not: operator.not_,
}


class UserCallError(Exception):
    """User code called by the directive raised an exception, which is `__cause__`."""

    def __init__(self, start: int, end: int) -> None:
        super().__init__(f"raised in the call at bytes {start} to {end}")
        self.start = start
        self.end = end


class Evaluator:
    """Evaluates nodes of one directive in the namespace `names`, making tensors with `make_tensor`."""

    def __init__(
        self,
        directive: Directive,
        names: Mapping[str, Any],
        make_tensor: Callable[[TensorSpec], Any],
        *,
        missing: str = "the file has no name",
    ) -> None:
        """`missing`: what is said before a name that `names` does not have."""
        self.directive = directive
        self.names = names
        self.make_tensor = make_tensor
        self.missing = missing

    def value(self, node: ast.expr) -> Any:  # noqa: C901, PLR0911, PLR0912 - one branch a kind of node
        """Make the object that `node` stands for. Raises DirectiveError or UserCallError."""
        if isinstance(node, ast.Constant):
            return node.value
        if dtype_of(node) is not None:
            return self._tensor(node, None)
        if self.directive.is_scalar_tensor(node):
            spec = TensorSpec(DTYPES[ast.unparse(node.func)], ())
            return self._guard(node, lambda: self.make_tensor(spec))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod) and dtype_of(node.left) is not None:
            return self._tensor(node.left, self._whole(node.right, "a bound", least=1))
        if isinstance(node, ast.Name):
            return self._name(node)
        self._refuse_other_notations(node)
        if isinstance(node, ast.Call):
            return self.call(self.value(node.func), node)
        if isinstance(node, ast.Tuple):
            return tuple(self._items(node.elts))
        if isinstance(node, ast.List):
            return self._items(node.elts)
        if isinstance(node, ast.Set):
            return self._guard(node, lambda: set(self._items(node.elts)))
        if isinstance(node, ast.Dict):
            return self._dict(node)
        if isinstance(node, ast.Attribute):
            owner = self.value(node.value)
            return self._guard(node, lambda: getattr(owner, node.attr))
        if isinstance(node, ast.Subscript):
            owner, key = self.value(node.value), self.value(node.slice)
            return self._guard(node, lambda: owner[key])
        if isinstance(node, ast.Slice):
            return slice(
                *(None if part is None else self.value(part) for part in (node.lower, node.upper, node.step))
            )
        if isinstance(node, ast.UnaryOp):
            operand = self.value(node.operand)
            return self._guard(node, lambda: _UNARY[type(node.op)](operand))
        if isinstance(node, ast.BinOp):
            left, right = self.value(node.left), self.value(node.right)
            return self._guard(node, lambda: _BINARY[type(node.op)](left, right))
        raise self.directive.error("this cannot stand here", node)

    def _refuse_other_notations(self, node: ast.expr) -> None:
        """Raise for `float32[2, 3]`, `f32(2, 3)`, `torch.float32[2]` and `f32[2] @ cpu`."""
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            if self._lacks(node.right) and node.right.id in _DEVICES:
                option = f'device="{node.right.id}"'
                words = f"the device of the tensors is an option of the call: write `{option}` as its last argument"
                raise self.directive.error(words, node)
        elif isinstance(node, ast.Subscript):
            sizes = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            self._refuse_tensor(node, self._dtype_of_subscript(node.value), sizes)
        elif isinstance(node, ast.Call) and not node.keywords and self._lacks(node.func):
            nested = node.args[0] if len(node.args) == 1 else None
            sizes = nested.elts if isinstance(nested, (ast.Tuple, ast.List)) else node.args
            self._refuse_tensor(node, known_dtype(node.func.id), sizes)

    def _dtype_of_subscript(self, owner: ast.expr) -> str | None:
        """The dtype that is meant with `float32`, `torch.float32`, `float` or `f31` before a shape."""
        if (
            isinstance(owner, ast.Attribute)
            and isinstance(owner.value, ast.Name)
            and owner.value.id == "torch"
        ):
            return known_dtype(owner.attr)
        if isinstance(owner, ast.Name) and owner.id in {"int", "float", "complex"} - self.names.keys():
            return known_dtype(owner.id)
        return nearest_dtype(owner.id) if self._lacks(owner) else None

    def _refuse_tensor(self, node: ast.expr, dtype: str | None, sizes: Sequence[ast.expr]) -> None:
        if dtype is not None:
            tensor = f"{dtype}[{', '.join(map(ast.unparse, sizes))}]"
            raise self.directive.error(f"`{ast.unparse(node)}` is not a tensor: write `{tensor}`", node)

    def _lacks(self, node: ast.expr | None) -> TypeGuard[ast.Name]:
        """Whether `node` is a name that the file does not have."""
        return isinstance(node, ast.Name) and node.id not in self.names and not hasattr(builtins, node.id)

    def call(self, function: Any, node: ast.Call) -> Any:
        """Call `function` with the arguments of `node`."""
        args, kwargs = self.arguments(node.args, tuple(node.keywords))
        return self._guard(node, lambda: function(*args, **kwargs))

    def arguments(
        self, args: list[ast.expr], keywords: tuple[ast.keyword, ...]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Make the values of a call's arguments."""
        named: dict[str, Any] = {}
        for keyword in keywords:
            value = self.value(keyword.value)
            if keyword.arg is not None:
                named[keyword.arg] = value
            elif isinstance(value, Mapping):
                named.update(value)
            else:
                raise self.directive.error("`**` takes a dict", keyword.value)
        return self._items(args), named

    def _items(self, nodes: list[ast.expr]) -> list[Any]:
        out: list[Any] = []
        for node in nodes:
            if isinstance(node, ast.Starred):
                spread = self.value(node.value)
                out.extend(self._guard(node, functools.partial(list, spread)))
            else:
                out.append(self.value(node))
        return out

    def _dict(self, node: ast.Dict) -> dict[Any, Any]:
        out: dict[Any, Any] = {}
        for key_node, value_node in zip(node.keys, node.values, strict=True):
            value = self.value(value_node)
            if key_node is None:
                self._guard(value_node, functools.partial(out.update, value))
            elif self._lacks(key_node):
                words = f'{self.missing} `{key_node.id}`: write `"{key_node.id}"` for a text'
                raise self.directive.error(words, key_node)
            else:
                key = self.value(key_node)
                self._guard(key_node, functools.partial(out.__setitem__, key, value))
        return out

    def _name(self, node: ast.Name) -> Any:
        if node.id in self.names:
            return self.names[node.id]
        if hasattr(builtins, node.id):
            return getattr(builtins, node.id)
        if node.id in DTYPES:
            message = f"needs a shape, as {node.id}[4, 8]; {node.id}[] is a tensor without dimensions"
            raise self.directive.error(f"{node.id} {message}", node)
        raise self.directive.error(f"{self.missing} `{node.id}`{self._instead(node.id)}", node)

    def _instead(self, name: str) -> str:
        """What to write in place of a name that does not exist, as the end of a message."""
        if name in _DEVICES:
            return f': write `"{name}"`'
        if name in OPTIONS:
            return f": options have a value, as `{name}=True`" if bool in OPTIONS[name] else ""
        other = nearest(name, self.names)
        if other is not None:
            return (
                f": write `{other}[4, 8]` for a tensor" if other in DTYPES else f": did you mean `{other}`?"
            )
        return f": did you mean `torch.{name}`?" if hasattr(self.names.get("torch"), name) else ""

    def _tensor(self, node: ast.expr, bound: int | None) -> Any:
        index = cast("ast.Subscript", node).slice
        sizes = index.elts if isinstance(index, ast.Tuple) else [index]
        shape = tuple(self._whole(size, "a size", least=0) for size in sizes)
        spec = TensorSpec(dtype_of(node) or "", shape, bound)
        return self._guard(node, lambda: self.make_tensor(spec))

    def _whole(self, node: ast.expr, what: str, *, least: int) -> int:
        if self._lacks(node):
            words = f"{self.missing} `{node.id}`: write a number, or define `{node.id}`"
            raise self.directive.error(words, node)
        value = self.value(node)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            shown = repr(value)[:40]
            raise self.directive.error(f"{what} is a whole number, {least} or more, not {shown}", node)
        return int(value)

    def _guard(self, node: ast.AST, make: Callable[[], Any]) -> Any:
        try:
            return make()
        except (DirectiveError, UserCallError):
            raise
        except Exception as error:
            raise UserCallError(*self.directive.span(node)) from error
