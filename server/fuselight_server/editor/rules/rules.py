"""Walks the statements of an edited function with what is known of their values, and finds what surely breaks.

Invariant: the kinds of values follow the program: an old expression has the fact of the run, a name has the kind of the
value that was last assigned to it, and what depends on a new value of unknown kind is unknown.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from fuselight_server.base.finding import Severity, Span
from fuselight_server.editor.rules.conditions import Conditions
from fuselight_server.editor.rules.functions import EditedFunction
from fuselight_server.editor.rules.inference import Scope
from fuselight_server.editor.rules.operations import broken_by, broken_by_truth
from fuselight_server.editor.rules.reach import ends, is_reached

_SIMPLE = (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr, ast.Return, ast.Assert, ast.Raise, ast.Delete)
_DEFINING = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Import, ast.ImportFrom)
_NESTED = (
    ast.Lambda,
    ast.ListComp,
    ast.SetComp,
    ast.DictComp,
    ast.GeneratorExp,
    ast.Await,
    ast.Yield,
    ast.YieldFrom,
)


@dataclass(frozen=True)
class PredictedBreak:
    """A graph break that an expression surely causes."""

    gb_id: str
    span: Span
    explanation: str = ""
    """In torch's words, as far as they name what broke."""
    severity: Severity | None = None


def breaks_of(function: EditedFunction, conditions: Conditions) -> Iterator[PredictedBreak]:
    """The breaks of the new lines of a function, in the order of the program."""
    yield from _Walk(function, conditions).block(function.node.body, entered=True)


class _Walk:
    """One walk over a function."""

    def __init__(self, function: EditedFunction, conditions: Conditions) -> None:
        self._function = function
        self._conditions = conditions
        self._scope = Scope(function)

    def block(self, block: Sequence[ast.stmt], *, entered: bool) -> Iterator[PredictedBreak]:
        """The breaks of a block; afterwards the scope is that at its end."""
        for index, node in enumerate(block):
            is_new = self._function.is_new(node)
            reached = is_new and is_reached(self._function, block, index, entered=entered)
            yield from self._statement(node, reached=reached)

    def _statement(self, node: ast.stmt, *, reached: bool) -> Iterator[PredictedBreak]:
        scope = self._scope
        if isinstance(node, _SIMPLE):
            if reached:
                yield from self._expressions(node)
            scope.execute(node)
        elif isinstance(node, ast.If):
            yield from self._if(node, reached=reached)
        elif isinstance(node, (ast.For, ast.While)):
            yield from self._loop(node, reached=reached)
        elif isinstance(node, ast.With):
            yield from self._with(node, reached=reached)
        elif isinstance(node, ast.Try):
            yield from self.block(node.body, entered=reached)
            scope.forget_values((*node.handlers, *node.orelse, *node.finalbody))
        elif isinstance(node, ast.ClassDef) and reached:
            yield from self._class(node)
        elif isinstance(node, _DEFINING):
            scope.define(node)
        else:
            scope.forget_values((node,))

    def _with(self, node: ast.With, *, reached: bool) -> Iterator[PredictedBreak]:
        for item in node.items:
            if reached:
                yield from self._expression(item.context_expr)
            if item.optional_vars is not None:
                self._scope.assign(item.optional_vars, None)
        yield from self.block(node.body, entered=reached)

    def _class(self, node: ast.ClassDef) -> Iterator[PredictedBreak]:
        old = self._conditions.version < (2, 13)
        span = Span(self._function.path, node.lineno, node.col_offset)
        yield PredictedBreak("GB0007" if old else "GB8977", span, "`__build_class__`")
        self._scope.bind(node.name, None)

    def _if(self, node: ast.If, *, reached: bool) -> Iterator[PredictedBreak]:
        scope, function = self._scope, self._function
        if reached:
            yield from self._condition(node.test)
        scope.read(node.test)
        branch = function.branch(node.test)
        before = scope.copy()
        yield from self.block(node.body, entered=False)
        after_body, body_ends = (
            scope.copy(),
            all(ends(function, statement) or _is_plain(statement) for statement in node.body),
        )
        scope.restore(before)
        yield from self.block(node.orelse, entered=False)
        else_ends = all(ends(function, statement) or _is_plain(statement) for statement in node.orelse)
        if (branch is not None and branch.true == 0) or not body_ends:
            return  # the state is that of the other side
        if (branch is not None and branch.false == 0) or not else_ends:
            scope.restore(after_body)
        else:
            scope.join(after_body)

    def _loop(self, node: ast.For | ast.While, *, reached: bool) -> Iterator[PredictedBreak]:
        scope = self._scope
        if reached and isinstance(node, ast.For):
            yield from self._expression(node.iter)
        scope.read(node.iter if isinstance(node, ast.For) else node.test)
        if reached and isinstance(node, ast.While):
            yield from self._condition(node.test)
        scope.enter_loop(node)
        before = scope.copy()
        yield from self.block(node.body, entered=reached and _runs_once(node))
        scope.join(before)
        yield from self.block(node.orelse, entered=False)

    def _condition(self, node: ast.expr) -> Iterator[PredictedBreak]:
        """The breaks of an expression whose truth is asked for."""
        if isinstance(node, ast.BoolOp):
            yield from self._condition(node.values[0])
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield from self._condition(node.operand)
        else:
            yield from self._expression(node)
            gb_id = broken_by_truth(self._scope.value(node)) if self._function.is_new(node) else None
            if gb_id is not None:
                yield self._break(node, gb_id)

    def _expressions(self, node: ast.stmt) -> Iterator[PredictedBreak]:
        if isinstance(node, ast.Assert):
            yield from self._expression(node.test)
            return  # torch turns an assert on a tensor into an operator
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                yield from self._expression(child)

    def _expression(self, node: ast.AST) -> Iterator[PredictedBreak]:
        """The breaks of an expression and of the parts that are evaluated whenever it is, inner parts first."""
        if isinstance(node, _NESTED) or (isinstance(node, ast.expr) and not self._function.is_new(node)):
            return
        if isinstance(node, ast.IfExp):
            yield from self._condition(node.test)
            return
        if isinstance(node, ast.BoolOp):
            yield from self._condition(node.values[0])
            return
        for child in ast.iter_child_nodes(node):
            yield from self._expression(child)
        if isinstance(node, ast.expr):
            entry = broken_by(node, self._scope, self._conditions)
            if entry is not None:
                yield self._break(node, *entry)

    def _break(
        self, node: ast.expr, gb_id: str, explanation: str = "", severity: Severity | None = None
    ) -> PredictedBreak:
        last = node.end_lineno or node.lineno
        span = Span(self._function.path, node.lineno, node.col_offset, last, node.end_col_offset)
        return PredictedBreak(gb_id, span, explanation, severity)


def _is_plain(node: ast.stmt) -> bool:
    return isinstance(node, (ast.Pass, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr))


def _runs_once(node: ast.For | ast.While) -> bool:
    """Whether a loop is entered whatever happens: `for i in range(3)`."""
    if not isinstance(node, ast.For) or not isinstance(node.iter, ast.Call):
        return False
    function, given = node.iter.func, node.iter.args
    return (
        isinstance(function, ast.Name)
        and function.id == "range"
        and len(given) == 1
        and isinstance(given[0], ast.Constant)
        and isinstance(given[0].value, int)
        and given[0].value > 0
    )
