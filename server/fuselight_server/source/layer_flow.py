"""Which layer takes each parameter of a method first, as its text says.

Invariant: nothing is run. A parameter whose way cannot be followed has no layer.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from fuselight_server.source import einops_patterns
from fuselight_server.source.class_sources import dotted_name
from fuselight_server.source.expression_values import MAX_DEPTH, Layer, Object, Reader, Sequence

_NEUTRAL_PARTS = ("Dropout", "ReLU", "GELU", "SiLU", "ELU", "Tanh", "Sigmoid", "Identity", "Softmax", "Mish")
_SAME_SHAPE = frozenset(
    {"float", "half", "double", "to", "contiguous", "clone", "detach", "cuda", "cpu", "type", "relu", "gelu"}
    | {"dropout", "type_as", "requires_grad_", "sigmoid", "tanh", "clamp", "abs", "long", "int", "bfloat16"}
)
"""Methods of tensors, and functions of torch, that keep the shape."""
_FLATTENS = frozenset({"flatten", "view", "reshape"})


@dataclass(frozen=True)
class Need:
    """What the first layer says about one input."""

    layer: Layer
    is_flat: bool = False
    """Whether the input is flattened before it."""
    then: Layer | None = None
    """After a pattern of einops, the layer that takes its result."""


@dataclass
class LayerFlow:
    """Follows the parameters of one method until a layer takes each."""

    owner: Object
    depth: int
    holds: dict[str, tuple[str, bool]]
    """Variables that hold a parameter, and whether it is flat by then."""
    needs: dict[str, Need] = field(default_factory=dict)
    dimensions: dict[str, int] = field(default_factory=dict)
    locals: dict[str, Any] = field(default_factory=dict)

    def body(self, statements: Iterable[ast.stmt]) -> None:
        """Follow the parameters through statements."""
        for statement in statements:
            self.statement(statement)

    def statement(self, statement: ast.stmt) -> None:
        """Follow the parameters through one statement; of a branch, both sides."""
        if isinstance(statement, (ast.Assign, ast.AnnAssign)):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            held = self.expression(statement.value)
            value = self._reader().value(statement.value)
            for target in targets:
                self._unpack(target, statement.value)
                self._know(target, value)
                if isinstance(target, ast.Name):
                    self._hold(target.id, held)
        elif isinstance(statement, ast.For):
            modules = self._module(statement.iter)
            if isinstance(modules, Sequence) and modules.parts and isinstance(statement.target, ast.Name):
                self.locals[statement.target.id] = modules.parts[0]
            self.expression(statement.iter)
            self.body(statement.body)
        elif isinstance(statement, (ast.If, ast.While)):
            self.expression(statement.test)
            self.body(statement.body)
            self.body(statement.orelse)
        elif isinstance(statement, (ast.With, ast.Try)):
            self.body(statement.body)
        elif isinstance(statement, (ast.Return, ast.Expr)):
            self.expression(statement.value)

    def _hold(self, name: str, held: tuple[str, bool] | None) -> None:
        if held is None:
            self.holds.pop(name, None)
        else:
            self.holds[name] = held

    def _know(self, target: ast.expr, value: Any) -> None:
        """Keep the value of a variable."""
        if isinstance(target, ast.Name):
            self.locals[target.id] = value
        elif isinstance(target, ast.Tuple):
            parts = value.parts if isinstance(value, Sequence) else ()
            for index, expression in enumerate(target.elts):
                self._know(expression, parts[index] if index < len(parts) else None)

    def _unpack(self, target: ast.expr, value: ast.expr | None) -> None:
        """Learn the number of dimensions from `b, c, h, w = x.shape`."""
        if not isinstance(target, (ast.Tuple, ast.List)) or value is None:
            return
        if any(isinstance(expression, ast.Starred) for expression in target.elts):
            return
        size = value.func if isinstance(value, ast.Call) and not value.args else value
        if isinstance(size, ast.Attribute) and size.attr in {"shape", "size"}:
            held = self.holds.get(dotted_name(size.value))
            if held is not None and not held[1]:
                self.dimensions.setdefault(held[0], len(target.elts))

    def expression(self, node: ast.expr | None) -> tuple[str, bool] | None:
        """Visit an expression; returns the parameter that its value still is, element by element."""
        if node is None:
            return None
        if isinstance(node, ast.Name):
            return self.holds.get(node.id)
        if isinstance(node, ast.Call):
            return self._call(node)
        parts = [
            self.expression(child) for child in ast.iter_child_nodes(node) if isinstance(child, ast.expr)
        ]
        if isinstance(node, (ast.BinOp, ast.UnaryOp)):
            return next(filter(None, parts), None)
        return None

    def _call(self, node: ast.Call) -> tuple[str, bool] | None:
        given: list[tuple[int | str, tuple[str, bool] | None]] = []
        given += [(index, self.expression(expression)) for index, expression in enumerate(node.args)]
        given += [(keyword.arg or "", self.expression(keyword.value)) for keyword in node.keywords]
        held = [(place, pair) for place, pair in given if pair is not None]
        module = self._module(node.func)
        if module is not None:
            results = [self._give(module, place, pair) for place, pair in held]
            return next(filter(None, results), None)
        name = dotted_name(node.func)
        method = self.owner.definition.method(name.removeprefix("self."))
        if name.startswith("self.") and method is not None and self.depth < MAX_DEPTH:
            self._enter(self.owner, method, held)
            return None
        last = node.func.attr if isinstance(node.func, ast.Attribute) else name
        of = self.expression(node.func.value) if isinstance(node.func, ast.Attribute) else None
        passed = of or (held[0][1] if held else None)
        if passed is not None and last in einops_patterns.FUNCTIONS and not of:
            return self._rearrange(einops_patterns.FUNCTIONS[last], node, passed)
        if passed is None or last not in {*_SAME_SHAPE, *_FLATTENS}:
            return None
        return (passed[0], True) if last in _FLATTENS else passed

    def _rearrange(self, kind: str, node: ast.Call, held: tuple[str, bool]) -> tuple[str, bool] | None:
        """Follow a parameter through `rearrange(x, "b c (h p1) ...", p1=p)`."""
        reader = self._reader()
        args = tuple(reader.value(expression) for expression in node.args[1:])
        keywords = {keyword.arg: reader.value(keyword.value) for keyword in node.keywords if keyword.arg}
        self.needs.setdefault(held[0], Need(Layer(kind, args, keywords), held[1]))
        return held

    def _reader(self) -> Reader:
        return Reader(self.owner.definition.file, {**self.locals, "self": self.owner}, MAX_DEPTH)

    def _module(self, node: ast.expr) -> Any:
        """The module that an expression names: `self.stem`, `self.layers[0]`, a loop's variable."""
        if isinstance(node, ast.Subscript):
            outer = self._module(node.value)
            return outer.parts[0] if isinstance(outer, Sequence) and outer.parts else None
        value = self._reader().value(node)
        return value if isinstance(value, (Layer, Sequence, Object)) else None

    def _give(self, module: Any, place: int | str, held: tuple[str, bool]) -> tuple[str, bool] | None:
        """Give a parameter to a module; returns what is still that parameter, element by element."""
        name, is_flat = held
        need = self.needs.get(name)
        if need is not None and (need.layer.kind not in einops_patterns.LAYERS or need.then is not None):
            return None
        for part in module.parts if isinstance(module, Sequence) else (module,):
            if isinstance(part, Layer) and part.kind.startswith(_NEUTRAL_PARTS):
                continue
            if isinstance(part, Layer) and part.kind == "Flatten":
                is_flat = True
                continue
            if isinstance(part, Sequence):
                return self._give(part, place, (name, is_flat))
            if isinstance(part, Layer):
                need = self.needs.get(name)
                self.needs[name] = Need(part, is_flat) if need is None else replace(need, then=part)
                if need is None and part.kind in einops_patterns.LAYERS:
                    continue
            elif isinstance(part, Object):
                forward = part.definition.method("forward")
                if forward is not None and self.depth < MAX_DEPTH:
                    self._enter(part, forward, [(place, (name, is_flat))])
            return None
        return name, is_flat

    def _enter(
        self,
        owner: Object,
        method: ast.FunctionDef,
        held: Iterable[tuple[int | str, tuple[str, bool]]],
    ) -> None:
        """Follow parameters into a method that gets them."""
        if not self.owner.definition.file.bounds.take_step():
            return
        names = [argument.arg for argument in (*method.args.posonlyargs, *method.args.args)][1:]
        holds = {}
        for place, pair in held:
            if isinstance(place, str):
                holds[place] = pair
            elif place < len(names):
                holds[names[place]] = pair
        inner = LayerFlow(owner, self.depth + 1, holds, self.needs, self.dimensions)
        inner.body(method.body)
