"""What a function does with a result whose shape depends on data, and with numbers that it reads from a tensor.

`torch._dynamo.config.capture_dynamic_output_shape_ops` keeps such a result in the graph, but not the number of its
values: what needs that number in Python raises GuardOnDataDependentSymNode, or breaks the graph again.

Invariant: a need is reported only where the source has it. Code that cannot be read, and what callers do with a
returned result, has none.
"""

from __future__ import annotations

import ast
import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuselight_server.explain.findings.common.number_uses import Use, uses_of
from fuselight_server.explain.findings.common.source_tree import parents_of, tree_around

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight.shared.report import Location
    from fuselight_server.explain.findings.common.context import Context


class NeedKind(enum.Enum):
    """What Python needs of a result, the hardest to capture first."""

    LIST = "list"
    """All its values as numbers: torch raises GuardOnDataDependentSymNode for a length that it does not know."""
    COUNT = "count"
    """How many values there are, for a loop or a branch: the graph breaks again."""
    NUMBER = "number"
    """A single value, which `capture_scalar_outputs` captures."""


@dataclass(frozen=True)
class PythonNeed:
    """The code that needs values of a result."""

    kind: NeedKind
    code: str
    """As in `.tolist()` or `the loop`."""
    line: int


_LISTS = frozenset({"tolist", "numpy"})
_KEEPING = frozenset(
    (
        *(
            "argsort",
            "clone",
            "contiguous",
            "cpu",
            "cuda",
            "detach",
            "double",
            "flatten",
            "float",
            "int",
            "long",
        ),
        *("reshape", "sort", "squeeze", "t", "to", "type", "unbind", "unsqueeze", "view"),
    )
)
"""Methods whose result has as many values as the tensor."""
_COUNTING = frozenset({"numel", "nelement", "size", "shape", "dim"})
_ITERATING = frozenset(
    (
        *(
            "all",
            "any",
            "enumerate",
            "filter",
            "iter",
            "list",
            "map",
            "max",
            "min",
            "next",
            "range",
            "reversed",
        ),
        *("set", "sorted", "sum", "tuple", "zip"),
    )
)
"""Built-in functions that take one value of a tensor after the other, or count to a number."""
_NUMBERS = frozenset({"int", "float"})
_MOST_NAMES = 8


def need_of(context: Context, at: Location) -> PythonNeed | None:
    """What Python needs of the result of the expression at `at`, the hardest to capture first."""
    tree = tree_around(context, at)
    if tree is None:
        return None
    parents = parents_of(tree)
    needs = list(_needs(tree, parents, _expressions(tree, at)))
    return min(needs, key=lambda need: (list(NeedKind).index(need.kind), need.line)) if needs else None


def used_as_size(context: Context, at: Location) -> bool:
    """Whether the function uses the numbers of the statement at `at` only as sizes, which no tensor can be."""
    function, tree = context.def_above(at), tree_around(context, at)
    if function is None or tree is None:
        return False
    names = tuple(dict.fromkeys(_bound(tree, at)))
    uses = uses_of(context.read_line, function, names) if names else frozenset()
    return bool(uses) and uses <= {Use.SIZE, Use.SLICE}


def _expressions(tree: ast.AST, at: Location) -> list[ast.AST]:
    """The expression at a place; without columns, all calls and subscripts of that line."""
    inside = [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.Call, ast.Subscript)) and node.lineno == at.line
    ]
    place = (at.column, at.end_line, at.end_column)
    exact = [node for node in inside if (node.col_offset, node.end_lineno, node.end_col_offset) == place]
    return list(exact or ([] if at.column is not None else inside))


def _needs(tree: ast.AST, parents: dict[ast.AST, ast.AST], nodes: list[ast.AST]) -> Iterator[PythonNeed]:
    """The needs of expressions, and of the names that their values are assigned to."""
    seen: set[str] = set()
    while nodes:
        node = nodes.pop()
        need = _need(node, parents)
        if isinstance(need, PythonNeed):
            yield need
        elif need is not None:
            for name in set(_targets(need)) - seen if len(seen) < _MOST_NAMES else ():
                seen.add(name)
                nodes += _reads(tree, name, need)


def _need(node: ast.AST, parents: dict[ast.AST, ast.AST]) -> PythonNeed | ast.Assign | None:
    """What happens to a value: Python needs it, or a name gets it."""
    value, child, parent = _Value(), node, parents.get(node)
    while parent is not None:
        need = value.need(child, parent, parents)
        if need is not None:
            return need
        if isinstance(parent, ast.stmt):
            return parent if value.is_whole and isinstance(parent, ast.Assign) else None
        value = value.after(child, parent)
        child, parent = parent, parents.get(parent)
    return None


@dataclass(frozen=True)
class _Value:
    """What an expression still has of a result."""

    is_whole: bool = True
    """Whether it has as many values."""
    is_count: bool = False
    """Whether it is a number that follows from how many values there are."""

    def need(self, child: ast.AST, parent: ast.AST, parents: dict[ast.AST, ast.AST]) -> PythonNeed | None:
        """What the node around the expression needs of it in Python."""
        line = getattr(child, "end_lineno", None) or 0
        loop = _loop(child, parent) if self.is_whole or self.is_count else ""
        if loop:
            return PythonNeed(NeedKind.COUNT, loop, line)
        if isinstance(parent, ast.Attribute) and isinstance(parents.get(parent), ast.Call):
            if parent.attr in _LISTS and self.is_whole:
                return PythonNeed(NeedKind.LIST, f".{parent.attr}()", line)
            return PythonNeed(NeedKind.NUMBER, ".item()", line) if parent.attr == "item" else None
        is_number = isinstance(parent, ast.Call) and _name(parent) in _NUMBERS and not self.is_count
        return PythonNeed(NeedKind.NUMBER, f"{_name(parent)}()", line) if is_number else None

    def after(self, child: ast.AST, parent: ast.AST) -> _Value:
        """What the node around the expression has of the result."""
        if isinstance(parent, ast.Attribute):
            return _Value(self.is_whole and parent.attr in _KEEPING, parent.attr in _COUNTING)
        if isinstance(parent, ast.Call):
            return self if child is parent.func else _Value(is_whole=False, is_count=_name(parent) == "len")
        if isinstance(parent, ast.Subscript):
            # An element that is selected by a constant is a single value, of a matrix a row.
            is_element = child is parent.value and isinstance(parent.slice, ast.Constant)
            return _Value(self.is_whole and not is_element, self.is_count)
        is_kept = isinstance(parent, (ast.Compare, ast.UnaryOp, ast.BinOp, ast.Tuple))
        return self if is_kept else _Value(is_whole=False)


def _name(node: ast.AST) -> str:
    """The function of Python that a node calls; empty for any other node."""
    return node.func.id if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) else ""


def _loop(child: ast.AST, parent: ast.AST) -> str:
    """The words for what counts the values: a loop, a branch, a function of Python; empty for anything else."""
    if isinstance(parent, (ast.For, ast.comprehension)) and child is parent.iter:
        return "the loop"
    if isinstance(parent, ast.Call) and child in parent.args:
        return f"{_name(parent)}()" if _name(parent) in _ITERATING else ""
    is_test = isinstance(parent, (ast.If, ast.While, ast.IfExp, ast.Assert)) and child is parent.test
    return "the branch" if is_test else ""


def _targets(statement: ast.Assign) -> Iterator[str]:
    for target in statement.targets:
        elements = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
        yield from (expression.id for expression in elements if isinstance(expression, ast.Name))


def _reads(tree: ast.AST, name: str, after: ast.stmt) -> list[ast.AST]:
    """Where a name is read after a statement."""
    return [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Name)
        and node.id == name
        and isinstance(node.ctx, ast.Load)
        and node.lineno > (after.end_lineno or after.lineno)
    ]


def _bound(tree: ast.AST, at: Location) -> Iterator[str]:
    """The names that the statement of a line assigns."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and node.lineno <= at.line <= (node.end_lineno or node.lineno):
            yield from _targets(node)
