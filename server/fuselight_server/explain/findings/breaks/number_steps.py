"""What to do about a number that is read from a tensor, by what the code does with it.

Invariant: only uses that stand in the function itself count, and a tensor is advised only where each of them accepts
one.
"""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterator

from fuselight.shared.report import Break, Location
from fuselight_server.explain.findings.advice.expectations import NOT_TRIED
from fuselight_server.explain.findings.breaks.branch_advice import Effect, effect_of
from fuselight_server.explain.findings.breaks.branch_conditions import is_computed
from fuselight_server.explain.findings.breaks.break_texts import first_step
from fuselight_server.explain.findings.breaks.input_numbers import input_of_number
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.number_uses import Use, use_by_call, use_of, uses_of
from fuselight_server.explain.findings.common.source_tree import node_at, parents_of, tree_around

NUMBER_TEXT = (
    "The value of the tensor is known only when the graph runs, and the code needs it as a Python number while torch "
    "traces."
)
_OUTSIDE = "outside the compiled code"
_OF_LOOPS = frozenset({Effect.WHILE, Effect.BREAK, Effect.CONTINUE})
"""What a branch does that decides how a loop goes on."""


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
_INPUT_STEP = (
    f"Pass the numbers of `{{0}}` in as Python numbers, beside the tensor or in its place: read them with "
    f"`{{0}}.tolist()` {_OUTSIDE}, and use them here. {NOT_TRIED}"
)
_TAKEN = frozenset({Use.SIZE, Use.LOOP})
_LOOP_COST = ": torch writes out the loop, and compiles once for each number of iterations"
_COMPUTED_STEP = f"Return the tensor of which the number is read, and do what needs the number {_OUTSIDE}"
_BRANCH_STEP = (
    f"Return what `{{0}}` is computed from, and decide {_OUTSIDE}. As a tensor, `{{0}}` breaks the graph where the "
    "code branches on it: {1}"
)
_LOOP_STEP = f"Keep the loop that `{{0}}` ends {_OUTSIDE}: compile its body, and decide between its calls"
_ENTRY_STEP = f"Choose the entry of `{{of}}` {_OUTSIDE}, and pass it in: torch has to know it while it traces"


def number_step(context: Context, graph_break: Break, at: Location) -> str:
    """The step for the number that a break reads at `at`; empty where a tensor may do, or its uses are not known."""
    is_outermost = (
        len(graph_break.stack) == 1
    )  # in the compiled function itself, and not in one that this calls
    tree = tree_around(context, at)
    node = node_at(tree, at) if tree is not None else None
    if tree is None or node is None:
        return ""
    parents = parents_of(tree)
    if key_step := _key_step(node, parents):
        return key_step
    is_given = is_outermost and not is_computed(tree, node)
    looked_up = _lookup(node, parents)
    if looked_up is not None:
        return _lookup_step(looked_up) if is_given else _COMPUTED_STEP
    kept, name = _kept(node, parents), _deciding_name(context, at, node, parents)
    if name or kept is _NumberPlace.ATTRIBUTE or (kept is not None and is_outermost):
        return _branch_step(tree, name) if name else _STEPS[kept]
    uses = uses_at(context, at, node, parents)
    return _use_step(context, graph_break, node, uses, is_given=is_given)


def _use_step(
    context: Context, graph_break: Break, node: ast.expr, uses: frozenset[Use], *, is_given: bool
) -> str:
    """The step by what happens to the number, which callers have if it `is_given`."""
    if isinstance(node, ast.Call) and (taken := use_by_call(None, node)) in _TAKEN:
        uses = frozenset({taken})  # the call itself takes the number, as `torch.arange(n)`
    is_list = isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "tolist"
    if not is_list and (not uses or not uses.isdisjoint({Use.OTHER, Use.CONDITION})):
        return ""
    if uses == {Use.SHOWN}:
        return _STEPS[Use.SHOWN]
    name = input_of_number(context, graph_break, node) if is_list or not is_given else ""
    given = f"{_GIVEN_STEP}{_LOOP_COST if uses == {Use.LOOP} else ''}"
    return _INPUT_STEP.format(name) if name else given if is_given else _COMPUTED_STEP


def _key_step(node: ast.expr, parents: dict[ast.AST, ast.AST]) -> str:
    """The step for a number in the `key=` of a sort, min or max; empty for any other number."""
    above: ast.AST | None = node
    while isinstance(above, ast.expr) and not isinstance(above, ast.Lambda):
        above = parents.get(above)
    argument = parents.get(above) if isinstance(above, ast.Lambda) else None
    if not isinstance(argument, ast.keyword) or argument.arg != "key":
        return ""
    call = parents.get(argument)
    name = ast.unparse(call.func).rpartition(".")[2] if isinstance(call, ast.Call) else ""
    return first_step("GB5687" if name in {"min", "max"} else "GB0207")[0]


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


def _lookup(node: ast.expr, parents: dict[ast.AST, ast.AST]) -> ast.Subscript | None:
    """The lookup in which the number is the key: around it, or the place itself, as `names[n]`."""
    parent = parents.get(node)
    if isinstance(parent, ast.Subscript) and node is parent.slice and isinstance(parent.ctx, ast.Load):
        return parent
    return node if isinstance(node, ast.Subscript) and isinstance(node.slice, (ast.Name, ast.Slice)) else None


def _lookup_step(lookup: ast.Subscript) -> str:
    """The step for a number that selects, where the callers have its tensor."""
    if isinstance(lookup.slice, ast.Slice):
        return first_step("GB0038")[0]
    return _ENTRY_STEP.format(of=ast.unparse(lookup.value))


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
