"""What the names of a function hold, from the assignments of a walk over it."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cached_property

from fuselight_server.editor.rules.function_facts import bound_names, parameter_facts
from fuselight_server.editor.rules.functions import EditedFunction
from fuselight_server.editor.rules.values import KnownValue, common

State = tuple[dict[str, "KnownValue | None"], frozenset[str]]


class NameState:
    """What the names of a function hold at one point of a walk over it."""

    def __init__(self, function: EditedFunction) -> None:
        self.function = function
        self._known: dict[str, KnownValue | None] = parameter_facts(function)
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
                for name in bound_names((statement,)):
                    if self.function.is_new(statement):
                        self._changed.add(name)
                        self._known[name] = None
                    elif name in self._known and not _is_settled(self._known[name]):
                        self._known[name] = None

    def forget_values(self, nodes: Iterable[ast.AST]) -> None:
        """Statements ran of which nothing is known."""
        for name in bound_names(nodes):
            self.bind(name, None)

    def define(self, node: ast.stmt) -> None:
        """A function or an import inside the function was met: an old one is what it was in the run."""
        reads = {node.id for node in ast.walk(node) if isinstance(node, ast.Name)}
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            own = {node.arg for node in ast.walk(node.args) if isinstance(node, ast.arg)} | bound_names(
                node.body
            )
            outer = (node.names for node in ast.walk(node) if isinstance(node, (ast.Global, ast.Nonlocal)))
            reads -= own.difference(*outer)
        if self.function.is_new(node) or reads & (self._changed | self._assigned_anew):
            self.forget_values((node,))
        else:
            self._known |= dict.fromkeys(bound_names((node,)))

    @cached_property
    def _assigned_anew(self) -> frozenset[str]:
        """Names that new lines bind anywhere: a function reads them when it is called."""
        new = (
            node
            for node in ast.walk(self.function.node)
            if isinstance(node, ast.stmt) and node is not self.function.node
        )
        return frozenset(bound_names(statement for statement in new if self.function.is_new(statement)))

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


def _is_settled(value: KnownValue | None) -> bool:
    return value is not None and value.is_tensor
