"""What names hold at one point of a walk over a function, and what expressions are that did not run.

Invariant: a fact of the run is used only for an expression that no new value can reach; a name that new code assigns
has the kind that follows from that code, or none.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cached_property
from typing import Any

from fuselight.shared.report import FactKind
from fuselight_server.editor.rules.function_facts import attribute_facts, local_names
from fuselight_server.editor.rules.name_state import NameState
from fuselight_server.editor.rules.result_kinds import (
    binary_result,
    comparison_result,
    method_result,
    torch_result,
)
from fuselight_server.editor.rules.values import KnownValue
from fuselight_server.source.class_sources import dotted_name

_TENSOR_ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "data", "real", "imag"})


class Scope(NameState):
    """The state of one walk, and what expressions are in it."""

    def execute(self, node: ast.stmt) -> None:
        """A simple statement ran."""
        is_new = self.function.is_new(node)
        for child in ast.walk(node):
            if isinstance(child, ast.NamedExpr):
                self.assign(child.target, self.value(child.value), is_new=True)
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value is not None:
            self._assignment(node, node.value, is_new=is_new)
        elif isinstance(node, ast.AugAssign):
            if isinstance(node.target, ast.Name):
                name = node.target.id
                self._known[name] = binary_result(self._known.get(name), self.value(node.value))
                if is_new and self._known[name] is None:
                    self._changed.add(name)
        elif isinstance(node, ast.Delete):
            self.forget_values((node,))
        else:
            self.read(node)

    def _assignment(self, node: ast.Assign | ast.AnnAssign, given: ast.expr, *, is_new: bool) -> None:
        self.read(given)
        is_new = is_new or self._has_changed(given)
        value = self.value(given)
        parts = given.elts if isinstance(given, ast.Tuple) else []
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Tuple) and len(target.elts) == len(parts):
                values = [self.value(part) for part in parts]
                for expression, part in zip(target.elts, values, strict=True):
                    self.assign(expression, part, is_new=is_new)
            else:
                self.assign(target, value, is_new=is_new)

    def read(self, node: ast.AST) -> None:
        """An expression was evaluated: what the run saw of the names in it is known from here on."""
        for child in ast.walk(node):
            if (
                isinstance(child, ast.Name)
                and isinstance(child.ctx, ast.Load)
                and child.id not in self._changed
            ):
                fact = self.function.fact(child)
                if fact is not None:
                    self._known[child.id] = fact

    # Expressions.

    def value(self, node: ast.expr) -> KnownValue | None:
        """What an expression is known to be at this point; None where it could be anything."""
        if not isinstance(node, ast.Name) and not self._has_changed(node):
            fact = self.function.fact(node) or self._replaced(node)
            if fact is not None:
                return fact
        reader = self._readers.get(type(node))
        return None if reader is None else reader(node)

    @cached_property
    def _readers(self) -> dict[type[ast.expr], Callable[[Any], KnownValue | None]]:
        return {
            ast.Name: self._name,
            ast.Constant: lambda node: KnownValue(FactKind.CONSTANT, text=repr(node.value)),
            ast.Attribute: self._attribute,
            ast.Call: self._call,
            ast.BinOp: lambda node: binary_result(self.value(node.left), self.value(node.right)),
            ast.UnaryOp: lambda node: None if isinstance(node.op, ast.Not) else self.value(node.operand),
            ast.Compare: self._compare,
            ast.Subscript: self._subscript,
            ast.NamedExpr: lambda node: self.value(node.value),
        }

    def full_name(self, node: ast.expr) -> str:
        """What a name or an attribute of an import stands for, as `torch.nn.functional.relu`; empty where unknown.

        A built-in function that nothing in the file hides is `builtins.NAME`.
        """
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id in self._local_names:
            return ""
        known = self.function.names.get(node.id)
        if known is None and not parts and node.id not in self.function.module_names:
            known = f"builtins.{node.id}"
        return ".".join([known, *reversed(parts)]) if known else ""

    def _name(self, node: ast.Name) -> KnownValue | None:
        if node.id in self._known:
            return self._known[node.id]
        return None if node.id in self._changed else self._replaced(node)

    def _attribute(self, node: ast.Attribute) -> KnownValue | None:
        owner = self.value(node.value)
        if owner is not None and owner.is_tensor:
            return KnownValue(FactKind.TENSOR, owner.dtype) if node.attr in _TENSOR_ATTRIBUTES else None
        text = dotted_name(node)
        return self._attributes.get(text) if text and text.partition(".")[0] not in self._changed else None

    def _call(self, node: ast.Call) -> KnownValue | None:
        if any(isinstance(expression, ast.Starred) for expression in node.args):
            return None
        function = node.func
        full = self.full_name(function)
        if full.startswith("torch."):
            return torch_result(full, node, self.value(node.args[0]) if node.args else None)
        owner = self.value(function.value) if isinstance(function, ast.Attribute) else None
        if owner is None or not owner.is_tensor or not isinstance(function, ast.Attribute):
            return None
        return method_result(owner, function.attr, has_arguments=bool(node.args or node.keywords))

    def _compare(self, node: ast.Compare) -> KnownValue | None:
        if len(node.ops) != 1 or isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.In, ast.NotIn)):
            return None
        return comparison_result((self.value(node.left), self.value(node.comparators[0])))

    def _subscript(self, node: ast.Subscript) -> KnownValue | None:
        owner = self.value(node.value)
        return KnownValue(FactKind.TENSOR, owner.dtype) if owner is not None and owner.is_tensor else None

    # What the function says of names.

    def _has_changed(self, node: ast.AST) -> bool:
        return bool(self._changed) and any(
            isinstance(node, ast.Name) and node.id in self._changed for node in ast.walk(node)
        )

    def _replaced(self, node: ast.expr) -> KnownValue | None:
        """What the same text was in the old lines that a new line replaces."""
        if node.end_lineno != node.lineno:
            return None
        hunk = self.function.edited.hunk_of(node.lineno)
        if hunk is None:
            return None
        text = self.function.edited.new[node.lineno - 1][node.col_offset : node.end_col_offset]
        return self.function.replaced(hunk).get(text)

    @cached_property
    def _local_names(self) -> frozenset[str]:
        return local_names(self.function)

    @cached_property
    def _attributes(self) -> dict[str, KnownValue | None]:
        return attribute_facts(self.function)
