"""The value of an expression, as its text says: constants, layers of torch.nn, objects of the workspace's classes.

Invariant: nothing is run. What the text does not say is None, never a guess.
"""

from __future__ import annotations

import ast
import contextlib
import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fuselight_server.source.class_sources import ClassSource, FileSource, dotted_name, super_call

MAX_DEPTH = 8
"""Modules within modules that are followed."""
_BINARY: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Div: operator.truediv,
}


_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}


@dataclass(frozen=True)
class Layer:
    """A layer of torch.nn with the arguments that could be read."""

    kind: str
    args: tuple[Any, ...]
    keywords: Mapping[str, Any]

    def argument(self, position: int, *names: str) -> Any:
        """The value of an argument; None where it is unknown."""
        for name in names:
            if name in self.keywords:
                return self.keywords[name]
        return self.args[position] if position < len(self.args) else None


@dataclass(frozen=True)
class Sequence:
    """Modules one after the other, or a list of them."""

    parts: tuple[Any, ...]


@dataclass
class Object:
    """An instance of a class of the workspace, or one that stands for it: its attributes, as far as they are known."""

    definition: ClassSource
    attributes: dict[str, Any] = field(default_factory=dict)
    arguments: dict[str, Any] = field(default_factory=dict)
    """The values of the constructor's parameters."""


@dataclass(frozen=True)
class Reader:
    """Evaluates expressions of a file with some names known. None stands for what is unknown."""

    file: FileSource
    names: Mapping[str, Any]
    depth: int = 0

    def value(self, node: ast.expr | None) -> Any:  # noqa: PLR0911 - one return a kind of expression
        """The value of an expression."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name):
            return self.names[node.id] if node.id in self.names else constants_of(self.file).get(node.id)
        if isinstance(node, ast.Attribute):
            owner = self.value(node.value)
            return owner.attributes.get(node.attr) if isinstance(owner, Object) else None
        if isinstance(node, ast.BinOp):
            return self._binary(node)
        if isinstance(node, (ast.Tuple, ast.List)):
            return Sequence(tuple(map(self.value, node.elts)))
        if isinstance(node, ast.ListComp):
            return Sequence((self.value(node.elt),))
        if isinstance(node, ast.Compare):
            return self._comparison(node)
        if isinstance(node, ast.IfExp):
            return self._of_branches(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        return None

    def _binary(self, node: ast.BinOp) -> Any:
        left, right, function = self.value(node.left), self.value(node.right), _BINARY.get(type(node.op))
        if function is None or not all(isinstance(value, (int, float)) for value in (left, right)):
            return None
        try:
            return function(left, right)
        except (ArithmeticError, ValueError):
            return None

    def _comparison(self, node: ast.Compare) -> bool | None:
        """Whether a comparison of two known numbers or strings holds."""
        function = _COMPARISONS.get(type(node.ops[0])) if len(node.ops) == 1 else None
        left, right = self.value(node.left), self.value(node.comparators[0])
        if function is None or not all(isinstance(value, (int, float, str)) for value in (left, right)):
            return None
        try:
            return bool(function(left, right))
        except TypeError:
            return None

    def _of_branches(self, node: ast.IfExp) -> Any:
        taken = self.value(node.test)
        if isinstance(taken, bool):
            return self.value(node.body if taken else node.orelse)
        return self.value(node.body) or self.value(node.orelse)

    def _call(self, node: ast.Call) -> Any:
        name = dotted_name(node.func)
        args = [
            self.value(expression.elt if isinstance(expression, ast.GeneratorExp) else _inner(expression))
            for expression in node.args
        ]
        keywords = {keyword.arg: self.value(keyword.value) for keyword in node.keywords if keyword.arg}
        if name == "int" and args and isinstance(args[0], (int, float)):
            return int(args[0]) if math.isfinite(args[0]) else None
        definition = self.file.find_class(node.func) if name else None
        if definition is not None:
            is_bounded = self.depth < MAX_DEPTH and self.file.bounds.take_step()
            return built(definition, args, keywords, self.depth + 1) if is_bounded else None
        last = name.rpartition(".")[2]
        if not last[:1].isupper():
            return None
        if last in {"Sequential", "ModuleList"}:
            parts = args[0].parts if len(args) == 1 and isinstance(args[0], Sequence) else tuple(args)
            return Sequence(parts)
        return Layer(last, tuple(args), keywords)


def constants_of(file: FileSource) -> dict[str, Any]:
    """The values of a module's assignments, in their order: what is assigned later is unknown before."""
    if file.constants is None:
        file.constants = {}
        for name, node in file.assignments:
            with contextlib.suppress(RecursionError):
                file.constants[name] = Reader(file, {}).value(node)
    return file.constants


def _inner(node: ast.expr) -> ast.expr:
    """What `*[...]` unpacks."""
    return node.value if isinstance(node, ast.Starred) else node


def built(
    definition: ClassSource, args: Iterable[Any], keywords: Mapping[str, Any], depth: int = 0
) -> Object:
    """What a constructor makes of its arguments: attributes are read from `__init__`, or from the fields."""
    instance = Object(definition)
    for name, default, _ in definition.fields():
        instance.attributes[name] = Reader(definition.file, {}, depth).value(default)
    if definition.method("__init__") is None:
        fields = [name for name, _, _ in definition.fields()]
        instance.attributes.update(zip(fields, args, strict=False))
        instance.attributes.update(keywords)
        return instance
    instance.arguments = _Construction(instance, depth).run(
        definition.definition_of("__init__"), args, keywords
    )
    return instance


def bound_values(
    file: FileSource, function: ast.FunctionDef, args: Iterable[Any], keywords: Mapping[str, Any]
) -> dict[str, Any]:
    """The values of a method's parameters, defaults included."""
    parameters = [node.arg for node in (*function.args.posonlyargs, *function.args.args)]
    defaults = function.args.defaults
    reader = Reader(file, {})
    values: dict[str, Any] = {}
    for name, default in zip(parameters[len(parameters) - len(defaults) :], defaults, strict=True):
        values[name] = reader.value(default)
    for argument, maybe in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
        values[argument.arg] = reader.value(maybe)
    values.update(zip(parameters[1:], args, strict=False))
    values.update(keywords)
    if function.args.kwarg is not None:
        named = {*parameters, *(argument.arg for argument in function.args.kwonlyargs)}
        values[function.args.kwarg.arg] = {
            name: value for name, value in keywords.items() if name not in named
        }
    return values


@dataclass(frozen=True)
class _Construction:
    """Takes in the assignments of an `__init__`.

    Of branches whose condition is unknown, the first that gives an attribute a value counts.
    """

    instance: Object
    depth: int
    assigned: set[str] = field(default_factory=set)
    """Attributes that this class has given a value: those of its base class are replaced."""

    def run(
        self,
        definition: tuple[ClassSource, ast.FunctionDef] | None,
        args: Iterable[Any],
        keywords: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Take in an `__init__` with these arguments; returns the values of its parameters."""
        if definition is None:
            return {}
        kind, function = definition
        names = bound_values(kind.file, function, args, keywords)
        parameters = dict(names)
        names["self"] = self.instance
        self._body(kind, Reader(kind.file, names, self.depth), function.body, names)
        return parameters

    def _body(
        self, kind: ClassSource, reader: Reader, body: Iterable[ast.stmt], names: dict[str, Any]
    ) -> None:
        for statement in body:
            if isinstance(statement, (ast.Assign, ast.AnnAssign)):
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                value = reader.value(statement.value)
                for target in targets:
                    self._assign(target, value, names)
            elif isinstance(statement, (ast.If, ast.For, ast.With, ast.Try)):
                taken = reader.value(statement.test) if isinstance(statement, ast.If) else None
                if taken is not False:
                    self._body(kind, reader, statement.body, names)
                if taken is not True:
                    self._body(kind, reader, getattr(statement, "orelse", []), names)
            elif (call := super_call(statement, "__init__")) is not None:
                self._base(kind, reader, call)

    def _base(self, kind: ClassSource, reader: Reader, call: ast.Call) -> None:
        if self.depth >= MAX_DEPTH or not kind.file.bounds.take_step():
            return
        keywords: dict[str, Any] = {}
        for keyword in call.keywords:
            value = reader.value(keyword.value)
            if keyword.arg is not None:
                keywords[keyword.arg] = value
            elif isinstance(value, dict):
                keywords.update(value)
        args = [reader.value(expression) for expression in call.args]
        _Construction(self.instance, self.depth + 1).run(kind.inherited("__init__"), args, keywords)

    def _assign(self, target: ast.expr, value: Any, names: dict[str, Any]) -> None:
        if isinstance(target, ast.Name):
            names[target.id] = value
        elif isinstance(target, ast.Attribute) and isinstance(names.get(dotted_name(target.value)), Object):
            attributes = names[dotted_name(target.value)].attributes
            is_own = names[dotted_name(target.value)] is not self.instance or target.attr in self.assigned
            if attributes.get(target.attr) is None or not is_own:
                attributes[target.attr] = value
                self.assigned.add(target.attr)
        elif isinstance(target, ast.Tuple) and isinstance(value, Sequence):
            for expression, part in zip(target.elts, value.parts, strict=False):
                self._assign(expression, part, names)
