"""What a selection is called whose shape depends on data, and what to do where the code only counts or sums it.

Invariant: a count in the graph is advised only where each use of the selection, in its own function, is one.
"""

from __future__ import annotations

import ast
import enum

from fuselight.shared.report import Location
from fuselight_server.explain.findings.breaks.number_steps import in_chain, uses_at
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.number_uses import Use
from fuselight_server.explain.findings.common.source_tree import node_at, parents_of, tree_around

IDS = frozenset({"GB0036", "GB0037"})
"""Ids of operators whose result has a shape that depends on data."""
_POSITIONS = frozenset({"nonzero", "argwhere"})
_DISTINCT = frozenset({"unique", "unique_consecutive"})
_MASKED = frozenset({"", "masked_select"})
_LONGEST = 40


class _Use(enum.Enum):
    """What the code computes from a selection."""

    ROWS = "rows"
    ELEMENTS = "elements"
    SUM = "sum"
    OTHER = "other"


_COUNTS = frozenset({_Use.ROWS, _Use.ELEMENTS})


_COUNT = "Count in the graph: `torch.count_nonzero({of})` is the number, as a tensor"
_COUNT_ELEMENTS = _COUNT + ", if `{of}` has the shape of `{tensor}`"
_SUM = (
    "Sum and count in the graph, if `{of}` has the shape of `{tensor}`: `torch.where({of}, {tensor}, 0).sum()`, and "
    "`torch.count_nonzero({of})` for the number"
)
_COUNT_DISTINCT = (
    "Count in the graph: with `s = {of}.flatten(){sort}`, `1 + torch.count_nonzero(s[1:] != s[:-1])` is the number of "
    "distinct values, as a tensor, unless there are none or some are NaN"
)


def title_of_selection(context: Context, broke: Location) -> str:
    """The title of a selection by a mask, whose operator the code does not name; empty for any other place."""
    tree = tree_around(context, broke)
    node = node_at(tree, broke) if tree is not None else None
    code = ast.unparse(node) if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) else ""
    return f"the shape of `{code}` depends on the tensor's data" if 0 < len(code) <= _LONGEST else ""


def count_step(context: Context, broke: Location) -> str:
    """What to do where the code only counts, or counts and sums, what it selects; empty where it does more."""
    tree = tree_around(context, broke)
    node = node_at(tree, broke) if tree is not None else None
    if tree is None or node is None:
        return ""
    parents = parents_of(tree)
    uses = [_use(part, parents) for part in _places(node, tree, parents)]
    kinds = {kind for kind, _ in uses}
    counts = [around for kind, around in uses if kind in _COUNTS]
    if not counts or _Use.OTHER in kinds:
        return ""
    if not all(uses_at(context, broke, count, parents) <= {Use.OTHER} for count in counts):
        return ""  # as a bound of a loop, in a condition, as a size: no tensor does
    return _step(node, kinds)


def _step(node: ast.expr, kinds: set[_Use]) -> str:
    name, tensor, argument = _parts(node)
    if name in _POSITIONS and kinds == {_Use.ROWS}:
        return _COUNT.format(of=ast.unparse(tensor))
    if name in _DISTINCT and argument is None and _Use.SUM not in kinds:
        sort = ".sort().values" if name == "unique" else ""
        return _COUNT_DISTINCT.format(of=in_chain(tensor), sort=sort)
    if argument is None or name not in _MASKED:
        return ""
    words = _COUNT if kinds == {_Use.ROWS} and not name else _COUNT_ELEMENTS
    words = _SUM if _Use.SUM in kinds else words
    return words.format(of=ast.unparse(argument), tensor=ast.unparse(tensor))


def _parts(node: ast.expr) -> tuple[str, ast.expr, ast.expr | None]:
    """The name of what selects, the tensor and the mask: `masked_select`, `x` and `m`; without a name of `x[m]`."""
    if isinstance(node, ast.Subscript):
        return "", node.value, None if isinstance(node.slice, (ast.Tuple, ast.Slice)) else node.slice
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.keywords:
        return "other", node, None
    is_function = ast.unparse(node.func.value) == "torch"
    values = [*node.args] if is_function else [node.func.value, *node.args]
    if not values or len(values) > 2:  # noqa: PLR2004 - a tensor and a mask
        return "other", node, None
    return node.func.attr, values[0], values[1] if len(values) > 1 else None


def _places(node: ast.expr, tree: ast.Module, parents: dict[ast.AST, ast.AST]) -> list[ast.expr]:
    """Where the function uses a selection: its own place, or those of its name; none where they are not known."""
    statement = parents.get(node)
    if not isinstance(statement, ast.Assign):
        return [node]
    target = statement.targets[0] if len(statement.targets) == 1 else None
    if not isinstance(target, ast.Name):
        return []
    same = [part for part in ast.walk(tree) if isinstance(part, ast.Name) and part.id == target.id]
    loads = [part for part in same if isinstance(part.ctx, ast.Load)]
    return [*loads] if len(same) == len(loads) + 1 else []


def _use(node: ast.expr, parents: dict[ast.AST, ast.AST]) -> tuple[_Use, ast.expr]:
    """What an expression around a selection computes from it, and that expression."""
    parent = parents.get(node)
    around = parents.get(parent) if isinstance(parent, ast.Attribute) else parent
    if not isinstance(parent, (ast.Attribute, ast.Call)) or not isinstance(around, (ast.Call, ast.Subscript)):
        return _Use.OTHER, node
    around_text = ast.unparse(around)
    kinds = (kind for end, kind in _ENDS.items() if around_text == end.format(ast.unparse(node)))
    return next(kinds, _Use.OTHER), around


_ENDS = {
    "len({})": _Use.ROWS,
    "{}.size(0)": _Use.ROWS,
    "{}.shape[0]": _Use.ROWS,
    "{}.numel()": _Use.ELEMENTS,
    "{}.sum()": _Use.SUM,
}
