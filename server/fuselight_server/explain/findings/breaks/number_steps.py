"""What to do about a number that is read from a tensor, by what the code does with it.

Invariant: only uses that stand in the function itself count, and a tensor is advised only where each of them accepts
one. A table of numbers is advised only for numbers that the file shows.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterator

from fuselight.shared.foreign_data import parse_literal, parse_python
from fuselight.shared.report import Location
from fuselight_server.explain.findings.breaks.branch_advice import Effect, effect_of
from fuselight_server.explain.findings.breaks.branch_conditions import is_computed
from fuselight_server.explain.findings.breaks.break_texts import first_step
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.number_uses import Use, use_of, uses_of
from fuselight_server.explain.findings.common.source_tree import parents_of, tree_around

NUMBER_TEXT = (
    "The value of the tensor is known only when the graph runs, and the code needs it as a Python number while torch "
    "traces."
)
_OUTSIDE = "outside the compiled code"
_OF_LOOPS = frozenset({Effect.WHILE, Effect.BREAK, Effect.CONTINUE})
"""What a branch does that decides how a loop goes on."""
_MAX_LINES = 5_000
_MAX_VALUES = 8


class _NumberPlace(enum.Enum):
    """Where a statement puts the number, if it does nothing else with it."""

    RETURNED = "returned"
    ATTRIBUTE = "attribute"
    ADDED = "added"


_STEPS: dict[object, str] = {
    Use.SHOWN: f"Return the tensor, and show its value {_OUTSIDE}",
    _NumberPlace.RETURNED: f"Return the tensor, and convert it {_OUTSIDE}",
    _NumberPlace.ATTRIBUTE: f"Keep the tensor there, after .detach(), and convert it {_OUTSIDE}",
    _NumberPlace.ADDED: f"Return the tensor, and keep its number {_OUTSIDE}",
}
_GIVEN_STEP = f"Compute the number {_OUTSIDE} and pass it in"
_LOOP_COST = ": torch writes out the loop, and compiles once for each number of iterations"
_COMPUTED_STEP = f"Return the tensor of which the number is read, and do what needs the number {_OUTSIDE}"
_BRANCH_STEP = (
    f"Return what `{{0}}` is computed from, and decide {_OUTSIDE}. As a tensor, `{{0}}` breaks the graph where the "
    "code branches on it: {1}"
)
_LOOP_STEP = f"Keep the loop that `{{0}}` ends {_OUTSIDE}: compile its body, and decide between its calls"
_TABLE_STEP = (
    "Look it up in a tensor: `torch.tensor({numbers}, device={of}.device)[{index}.view(1)].squeeze(0)`"
)
_ENTRY_STEP = f"Choose the entry of `{{of}}` {_OUTSIDE}, and pass it in: torch has to know it while it traces"


def number_step(context: Context, at: Location, *, is_outermost: bool) -> str:
    """The step for the number that is read at `at`; empty where a tensor may do, or nothing is known of its uses.

    `is_outermost`: whether the line is in the compiled function itself, and not in one that this calls.
    """
    tree = tree_around(context, at)
    node = node_at(tree, at) if tree is not None else None
    if tree is None or node is None:
        return ""
    parents = parents_of(tree)
    is_given = is_outermost and not is_computed(tree, node)
    looked_up = _lookup(node, parents)
    if looked_up is not None:
        return _lookup_step(context, at, looked_up, node, parents, is_given=is_given)
    kept, name = _kept(node, parents), _deciding_name(context, at, node, parents)
    if name:
        return _branch_step(tree, name)
    if kept is not None and (is_outermost or kept is _NumberPlace.ATTRIBUTE):
        return _STEPS[kept]
    uses = uses_at(context, at, node, parents)
    is_list = isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "tolist"
    if is_list or (uses and uses.isdisjoint({Use.OTHER, Use.CONDITION})):
        given = f"{_GIVEN_STEP}{_LOOP_COST if uses == {Use.LOOP} else ''}"
        return _STEPS[Use.SHOWN] if uses == {Use.SHOWN} else given if is_given else _COMPUTED_STEP
    return ""


def indexed(context: Context, at: Location) -> tuple[str, str] | None:
    """What is indexed at `at` and the name of the index, as `boxes` and `first` of `boxes[first]`; else None."""
    tree = tree_around(context, at)
    places = (
        node
        for node in ast.walk(tree or ast.Module([], []))
        if isinstance(node, ast.Subscript)
        and isinstance(node.slice, (ast.Name, ast.Attribute))
        and (node.lineno, node.col_offset) == (at.line, at.column)
    )
    node = next(places, None)
    return None if node is None else (ast.unparse(node.value), ast.unparse(node.slice))


def node_at(tree: ast.AST, at: Location) -> ast.expr | None:
    """The expression with exactly the columns of the place."""
    wanted = (at.line, at.column, at.end_line or at.line, at.end_column)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Call, ast.Subscript)):
            place = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
            if place == wanted:
                return node
    return None


def _lookup(node: ast.expr, parents: dict[ast.AST, ast.AST]) -> ast.Subscript | None:
    """The lookup in which the number is the key: around it, or the place itself, as `names[n]`."""
    parent = parents.get(node)
    if isinstance(parent, ast.Subscript) and node is parent.slice and isinstance(parent.ctx, ast.Load):
        return parent
    return node if isinstance(node, ast.Subscript) and isinstance(node.slice, (ast.Name, ast.Slice)) else None


def _kept(node: ast.expr, parents: dict[ast.AST, ast.AST]) -> _NumberPlace | None:
    parent = parents.get(node)
    while isinstance(parent, (ast.Tuple, ast.List, ast.Dict)):
        parent = parents.get(parent)
    if isinstance(parent, ast.Return):
        return _NumberPlace.RETURNED
    if isinstance(parent, ast.Assign) and all(isinstance(item, ast.Attribute) for item in parent.targets):
        return _NumberPlace.ATTRIBUTE
    is_added = isinstance(parent, ast.Call) and getattr(parent.func, "attr", "") in {"append", "add"}
    return _NumberPlace.ADDED if is_added else None


def uses_at(
    context: Context, at: Location, node: ast.expr, parents: dict[ast.AST, ast.AST]
) -> frozenset[Use]:
    """What happens to the number: where it stands, or to the names that it is assigned to."""
    function, statement = context.def_above(at), parents.get(node)
    while statement is not None and isinstance(statement, (ast.Tuple, ast.List, ast.BinOp, ast.UnaryOp)):
        statement = parents.get(statement)
    if not isinstance(statement, ast.Assign):
        return frozenset({use_of(node, parents)})
    names = tuple(dict.fromkeys(_names(statement)))
    return uses_of(context.read_line, function, names) if names and function is not None else frozenset()


def _deciding_name(context: Context, at: Location, node: ast.expr, parents: dict[ast.AST, ast.AST]) -> str:
    """The name of the comparison that the number is a part of, if the function branches on it; else empty."""
    above: ast.AST | None = parents.get(node)
    while isinstance(above, (ast.Compare, ast.BoolOp, ast.UnaryOp)):
        above = parents.get(above)
    function = context.def_above(at)
    if not isinstance(above, ast.Assign) or function is None:
        return ""
    names = dict.fromkeys(_names(above))
    branches = (name for name in names if Use.CONDITION in uses_of(context.read_line, function, (name,)))
    return next(branches, "")


def _branch_step(tree: ast.AST, name: str) -> str:
    branches = [
        node
        for node in ast.walk(tree)
        if isinstance(node, (ast.If, ast.While, ast.Assert, ast.IfExp))
        and any(isinstance(part, ast.Name) and part.id == name for part in ast.walk(node.test))
    ]
    if not _OF_LOOPS.isdisjoint(effect_of(node, parents_of(tree)) for node in branches):
        return _LOOP_STEP.format(name)
    raises = [
        isinstance(node, ast.Assert) or (isinstance(node, ast.If) and isinstance(node.body[0], ast.Raise))
        for node in branches
    ]
    steps = (
        *(["select with torch.where there"] if not all(raises) else []),
        *(["raise with torch._assert_async"] if any(raises) else []),
    )
    return _BRANCH_STEP.format(name, ", or ".join(steps) or "select with torch.where there")


def _names(statement: ast.Assign) -> Iterator[str]:
    for target in statement.targets:
        elements = target.elts if isinstance(target, (ast.Tuple, ast.List)) else [target]
        yield from (expression.id for expression in elements if isinstance(expression, ast.Name))


# Tables of numbers


def _lookup_step(
    context: Context,
    at: Location,
    lookup: ast.Subscript,
    node: ast.expr,
    parents: dict[ast.AST, ast.AST],
    *,
    is_given: bool,
) -> str:
    table = "" if isinstance(lookup.slice, ast.Slice) else _table_step(context, at, lookup, node, parents)
    if table or not is_given:
        return table or _COMPUTED_STEP
    is_bound = isinstance(lookup.slice, ast.Slice)
    return first_step("GB0038")[0] if is_bound else _ENTRY_STEP.format(of=ast.unparse(lookup.value))


def _table_step(
    context: Context, at: Location, lookup: ast.Subscript, node: ast.expr, parents: dict[ast.AST, ast.AST]
) -> str:
    """The lookup in a tensor with the same numbers; empty where the entries are something else, or are not shown."""
    if use_of(lookup, parents) is not Use.OTHER or _kept(lookup, parents) is not None:
        return ""
    name = lookup.value.id if isinstance(lookup.value, ast.Name) else ""
    numbers, of = _numbers_of(context, at, name) if name else "", tensor_of(node)
    is_cut = isinstance(node, ast.Call) and isinstance(node.func, ast.Name)  # int() cuts off digits
    index = f"{of}.long()" if is_cut else of
    return _TABLE_STEP.format(numbers=numbers, index=index, of=of) if numbers and of else ""


def tensor_of(node: ast.expr) -> str:
    """The tensor whose number is read: `i` of `i.item()`, of `int(i)`, of `names[i]`; empty for all else."""
    if isinstance(node, ast.Subscript):
        return ast.unparse(node.slice)
    if not isinstance(node, ast.Call):
        return ""
    if isinstance(node.func, ast.Attribute) and node.func.attr == "item" and not node.args:
        return in_chain(node.func.value)
    is_converted = isinstance(node.func, ast.Name) and node.func.id in _CONVERSIONS and len(node.args) == 1
    return in_chain(node.args[0]) if is_converted else ""


_CONVERSIONS = frozenset({"int", "float", "bool"})


def with_tensor(context: Context, at: Location, hints: tuple[str, ...]) -> tuple[str, ...]:
    """The hints with the tensor in the place of the number that is read at `at`, which would break the graph again."""
    tree = tree_around(context, at)
    node = node_at(tree, at) if tree is not None else None
    tensor = tensor_of(node) if isinstance(node, ast.Call) else ""
    if node is None or not tensor:
        return hints
    return tuple(hint.replace(ast.unparse(node), tensor) for hint in hints)


def in_chain(node: ast.expr) -> str:
    """The text of an expression, so that an attribute can follow."""
    text = ast.unparse(node)
    return text if isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript)) else f"({text})"


def _numbers_of(context: Context, at: Location, name: str) -> str:
    """The numbers of a dict of 0, 1, ..., or of a list or tuple, that the file assigns once; empty if unknown."""
    lines: list[str] = []
    while len(lines) < _MAX_LINES and (line := context.read_line(at.path, len(lines) + 1)) is not None:
        lines.append(line.rstrip("\n"))
    try:
        tree = parse_python("\n".join(lines))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    assigned = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and node.id == name and isinstance(node.ctx, ast.Store)
    ]
    statements = [
        node
        for node in tree.body
        if isinstance(node, ast.Assign) and any(target in assigned for target in node.targets)
    ]
    return _written(name, statements[0].value) if len(assigned) == len(statements) == 1 else ""


def _written(name: str, value: ast.expr) -> str:
    try:
        known = parse_literal(ast.unparse(value))
    except ValueError:
        return ""
    whole = name
    if isinstance(known, dict):
        if list(known) != list(range(len(known))) or any(isinstance(key, bool) for key in known):
            return ""
        known, whole = list(known.values()), f"list({name}.values())"
    if not isinstance(known, (list, tuple)) or not known:
        return ""
    if not all(isinstance(item, (int, float)) and not isinstance(item, bool) for item in known):
        return ""
    return f"[{', '.join(map(repr, known))}]" if len(known) <= _MAX_VALUES else whole
