"""What names hold at one point of a walk over a function, and what expressions are that did not run.

Invariant: a fact of the run is used only for an expression that no new value can reach; a name that new code assigns
has the kind that follows from that code, or none.
"""

from __future__ import annotations

import ast
from functools import cached_property
from typing import TYPE_CHECKING, Any

from fuselight.shared.report import FactKind
from fuselight_server.editor.rules.tensor_names import (
    ACTIVATIONS,
    DTYPES,
    FACTORIES,
    FUNCTIONS,
    MASKS,
    METHODS,
    REDUCTIONS,
    SAME_DTYPE,
    TOTALS,
)
from fuselight_server.editor.rules.values import TENSOR, KnownValue, common
from fuselight_server.source.class_sources import dotted_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from fuselight_server.editor.rules.functions import EditedFunction

State = tuple[dict[str, "KnownValue | None"], frozenset[str]]

_FUNCTIONAL = "torch.nn.functional."
_TENSOR_ATTRIBUTES = frozenset({"T", "mT", "H", "mH", "data", "real", "imag"})
_NUMBERS = (FactKind.CONSTANT, FactKind.NUMBER)


class Scope:
    """The state of one walk."""

    def __init__(self, function: EditedFunction) -> None:
        self.function = function
        self._known: dict[str, KnownValue | None] = self._parameters()
        self._changed: set[str] = set()
        """Names that may hold something else than in the run."""

    # The state.

    def copy(self) -> State:
        """The state as it is."""
        return dict(self._known), frozenset(self._changed)

    def restore(self, state: State) -> None:
        """Go on from a state."""
        self._known, self._changed = dict(state[0]), set(state[1])

    def join(self, state: State) -> None:
        """Go on from either this state or another one."""
        known, changed = state
        for name in {*self._known, *known}:
            here, there = self._known.get(name), known.get(name)
            self._known[name] = here if here == there else common(here, there)
        self._changed |= changed

    def enter_loop(self, loop: ast.For | ast.While) -> None:
        """Continue at the start of a loop's body, in any of its iterations."""
        if isinstance(loop, ast.For):
            self.assign(loop.target, None, is_new=self.function.is_new(loop.target))
        for statement in (node for part in loop.body for node in ast.walk(part)):
            if isinstance(statement, ast.stmt) and not isinstance(statement, (ast.If, ast.For, ast.While)):
                for name in _bound((statement,)):
                    if self.function.is_new(statement):
                        self._changed.add(name)
                        self._known[name] = None
                    elif name in self._known and not _is_settled(self._known[name]):
                        self._known[name] = None

    def forget_values(self, nodes: Iterable[ast.AST]) -> None:
        """Statements ran of which nothing is known."""
        for name in _bound(nodes):
            self.bind(name, None)

    def define(self, node: ast.stmt) -> None:
        """A function or an import inside the function was met: an old one is what it was in the run."""
        reads = {node.id for node in ast.walk(node) if isinstance(node, ast.Name)}
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            own = {node.arg for node in ast.walk(node.args) if isinstance(node, ast.arg)} | _bound(node.body)
            outer = (node.names for node in ast.walk(node) if isinstance(node, (ast.Global, ast.Nonlocal)))
            reads -= own.difference(*outer)
        if self.function.is_new(node) or reads & (self._changed | self._assigned_anew):
            self.forget_values((node,))
        else:
            self._known |= dict.fromkeys(_bound((node,)))

    @cached_property
    def _assigned_anew(self) -> frozenset[str]:
        """Names that new lines bind anywhere: a function reads them when it is called."""
        new = (
            node
            for node in ast.walk(self.function.node)
            if isinstance(node, ast.stmt) and node is not self.function.node
        )
        return frozenset(_bound(statement for statement in new if self.function.is_new(statement)))

    def bind(self, name: str, value: KnownValue | None) -> None:
        """A name was assigned by new code, or to something unknown."""
        self._known[name] = value
        self._changed.add(name)

    def assign(self, target: ast.expr, value: KnownValue | None, *, is_new: bool = True) -> None:
        """A target of an assignment got a value; the parts of a tuple get unknown ones."""
        if isinstance(target, ast.Name):
            fact = None if is_new else self.function.fact(target, assigned=True)
            self._known[target.id] = fact or value
            if is_new and not (value is not None and value.is_tensor):
                self._changed.add(target.id)
            elif fact is not None or value is not None:
                self._changed.discard(target.id)
        elif isinstance(target, (ast.Tuple, ast.List)):
            for expression in target.elts:
                self.assign(expression, None, is_new=is_new)
        elif isinstance(target, ast.Starred):
            self.assign(target.value, None, is_new=is_new)

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
                self._known[name] = self._binary(self._known.get(name), self.value(node.value))
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
            ast.BinOp: lambda node: self._binary(self.value(node.left), self.value(node.right)),
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
            return self._torch_call(full, node)
        owner = self.value(function.value) if isinstance(function, ast.Attribute) else None
        if owner is None or not owner.is_tensor or not isinstance(function, ast.Attribute):
            return None
        return self._method_call(owner, function.attr, has_arguments=bool(node.args or node.keywords))

    def _method_call(self, owner: KnownValue, name: str, *, has_arguments: bool) -> KnownValue | None:
        """What a method of a tensor returns."""
        whole = name in REDUCTIONS and not has_arguments
        if not whole and name not in METHODS:
            return None
        rank = 0 if not has_arguments and name in REDUCTIONS | TOTALS else None
        if name in MASKS:
            return KnownValue(FactKind.TENSOR, "bool", owner.rank if rank is None else rank)
        if name in DTYPES:
            return KnownValue(FactKind.TENSOR, DTYPES[name], rank)
        keeps = name in SAME_DTYPE or whole or (name in TOTALS and owner.is_floating)
        return KnownValue(FactKind.TENSOR, owner.dtype if keeps else "", rank)

    def _torch_call(self, full: str, node: ast.Call) -> KnownValue | None:
        """The result of a call of torch; None if it may be no tensor.

        A rule that uses it reports a break without a trace, so the dtype is claimed only where the first argument's
        dtype surely is the result's; type promotion needs all arguments, and `dtype=` or `out=` may change it.
        """
        if any(keyword.arg in {None, "out"} for keyword in node.keywords):
            return None
        name = full.removeprefix("torch.")
        if full.startswith(_FUNCTIONAL):
            return TENSOR if full.removeprefix(_FUNCTIONAL) in ACTIVATIONS else None
        first = self.value(node.args[0]) if node.args else None
        if name in MASKS - REDUCTIONS:
            return KnownValue(FactKind.TENSOR, "bool")
        if name in FACTORIES and not node.keywords:
            return KnownValue(FactKind.TENSOR, "" if name.endswith("_like") else "f32")
        returns_one = name in REDUCTIONS and len(node.args) == 1 and not node.keywords
        returns_one = returns_one or (name == "where" and len(node.args) > 1)
        if name not in FUNCTIONS and not returns_one:
            return None
        keeps = name in SAME_DTYPE | TOTALS and first is not None and first.is_floating
        return KnownValue(FactKind.TENSOR, first.dtype if keeps and first is not None else "")

    def _binary(self, left: KnownValue | None, right: KnownValue | None) -> KnownValue | None:
        if left is None or right is None:
            return None
        if left.is_tensor and right.is_tensor:
            return KnownValue(FactKind.TENSOR, left.dtype if left.dtype == right.dtype else "")
        if left.is_tensor and right.kind in _NUMBERS:
            return KnownValue(FactKind.TENSOR, left.dtype if left.is_floating else "", left.rank)
        if right.is_tensor and left.kind in _NUMBERS and left.text[:1] not in {"'", '"'}:
            return KnownValue(FactKind.TENSOR, right.dtype if right.is_floating else "", right.rank)
        return None

    def _compare(self, node: ast.Compare) -> KnownValue | None:
        if len(node.ops) != 1 or isinstance(node.ops[0], (ast.Is, ast.IsNot, ast.In, ast.NotIn)):
            return None
        sides = self.value(node.left), self.value(node.comparators[0])
        known = [value for value in sides if value is not None]
        if len(known) != len(sides) or not any(value.is_tensor for value in known):
            return None
        if any(value.text == "None" or value.text[:1] in {"'", '"'} for value in known):
            return None
        if not all(value.is_tensor or value.kind in _NUMBERS for value in known):
            return None
        ranks = [value.rank if value.is_tensor else 0 for value in known]
        whole = [rank for rank in ranks if rank is not None]
        return KnownValue(FactKind.TENSOR, "bool", max(whole) if len(whole) == len(ranks) else None)

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
        node = self.function.node
        given = node.args
        names = {argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
        names |= {argument.arg for argument in (given.vararg, given.kwarg) if argument is not None}
        return frozenset(names | _bound(node.body))

    @cached_property
    def _attributes(self) -> dict[str, KnownValue | None]:
        """What `self.weight` and the like are in old expressions of the function, if it never assigns them."""
        known_values: dict[str, KnownValue | None] = {}
        assigned: set[str] = set()
        for node in ast.walk(self.function.node):
            if isinstance(node, ast.Attribute):
                text = dotted_name(node)
                if not isinstance(node.ctx, ast.Load):
                    assigned.add(text)
                elif text and (fact := self.function.fact(node)) is not None:
                    known_values[text] = common(known_values[text], fact) if text in known_values else fact
        return {text: value for text, value in known_values.items() if text not in assigned}

    def _parameters(self) -> dict[str, KnownValue | None]:
        """What the run saw of the parameters, until something assigns them."""
        node = self.function.node
        given = node.args
        names = {argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
        known_values: dict[str, KnownValue | None] = {}
        stored: dict[str, tuple[int, int]] = {}
        uses = [
            node
            for part in node.body
            for node in ast.walk(part)
            if isinstance(node, ast.Name) and node.id in names
        ]
        for use in uses:
            if not isinstance(use.ctx, ast.Load):
                at = (use.lineno, use.col_offset)
                stored[use.id] = min(stored.get(use.id, at), at)
        for use in sorted(uses, key=lambda use: (use.lineno, use.col_offset)):
            first = stored.get(use.id, (use.lineno, use.col_offset))
            if use.id not in known_values and isinstance(use.ctx, ast.Load) and use.lineno <= first[0]:
                fact = self.function.fact(use)
                if fact is not None:
                    known_values[use.id] = fact
        return known_values


def _is_settled(value: KnownValue | None) -> bool:
    return value is not None and value.is_tensor


def _bound(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that statements bind or delete, those of functions and classes among them, not what is inside those."""
    bound: set[str] = set()
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(node.name)
            continue
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            bound |= {name.asname or name.name.partition(".")[0] for name in node.names}
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
        elif isinstance(node, ast.Lambda):
            continue
        waiting.extend(ast.iter_child_nodes(node))
    return bound
