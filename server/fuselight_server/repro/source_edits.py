"""Smaller programs of a program that is Python source: each edit is one change of its tree.

Invariant: a tree that was given stays as it is, and the last statement of the module stays a call. An edit is made when
it is called: most of them are never tried.
"""

from __future__ import annotations

import ast
import copy
import functools
from collections.abc import Callable, Iterator
from typing import Any

from fuselight.shared.foreign_data import parse_python

Edit = Callable[[], ast.Module]

_BODIES = ("body", "orelse", "finalbody")
_COMPOUND = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try)
_NO_EXPRESSIONS = frozenset(
    {*_BODIES, "handlers", "ops", "comparators", "targets", "generators", "kw_defaults"}
)
"""Lists of which no item may go."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SMALL = 2
_FRESH_FROM = 6
"""Nodes of a value from which on a fresh tensor in its place is smaller."""


def edited(tree: ast.Module, index: int, edit: Callable[[Any], Any]) -> ast.Module:
    """A copy in which the node with an index in `ast.walk` has changed."""
    changed = copy.deepcopy(tree)
    node = list(ast.walk(changed))[index]
    edit(node)
    return changed


def statement_lists(tree: ast.Module) -> list[tuple[int, str, int]]:
    """Lists of statements, those of functions first: the index of a node, its field, how many statements may go."""
    lists = []
    for index, node in enumerate(ast.walk(tree)):
        for field in (*_BODIES, "handlers"):
            body = getattr(node, field, None)
            if isinstance(body, list) and body:
                count = len(body) - (1 if isinstance(node, ast.Module) else 0)
                if not (count == 1 and isinstance(body[0], ast.Pass)):
                    lists.append((index, field, count))
    return [*lists[1:], *lists[:1]]  # what functions no longer use is gone before the module's own are tried


def without_statements(tree: ast.Module, index: int, field: str, start: int, stop: int) -> ast.Module:
    """The tree without some statements of a list."""

    def edit(node: Any) -> None:
        left = getattr(node, field)[:start] + getattr(node, field)[stop:]
        needs_one = field == "body" and not isinstance(node, ast.Module)
        setattr(node, field, left or ([ast.Pass()] if needs_one else []))
        if isinstance(node, ast.Try) and not node.handlers and not node.finalbody:
            node.finalbody = [ast.Pass()]

    return edited(tree, index, edit)


def unwrapped(tree: ast.Module) -> Iterator[Edit]:
    """The statements of an `if`, a loop, a `with` or a `try` in its place."""
    for index, node in enumerate(ast.walk(tree)):
        for field in _BODIES:
            body = getattr(node, field, None)
            for place, statement in enumerate(body if isinstance(body, list) else ()):
                if not isinstance(statement, _COMPOUND):
                    continue
                for inner in ("body", "orelse"):
                    if getattr(statement, inner, None):
                        yield functools.partial(edited, tree, index, _splice(field, place, inner))


def _splice(field: str, place: int, inner: str) -> Callable[[Any], None]:
    def edit(node: Any) -> None:
        body = getattr(node, field)
        body[place : place + 1] = getattr(body[place], inner)

    return edit


def simpler_expressions(tree: ast.Module) -> Iterator[Edit]:
    """An expression replaced by a part of it, or by a fresh tensor; an element, an argument or a base left out."""
    last: Any = tree.body[-1]
    for index, node in enumerate(ast.walk(tree)):
        for field, value in ast.iter_fields(node):
            if isinstance(value, ast.expr) and node is not last and value is not last.value.func:
                for part in _parts(value, may_be_fresh=isinstance(node, ast.Assign)):
                    yield functools.partial(edited, tree, index, _set(field, part))
            elif isinstance(value, list) and field not in _NO_EXPRESSIONS:
                yield from _simpler_items(tree, index, field, value)


def _simpler_items(tree: ast.Module, index: int, field: str, items: list[Any]) -> Iterator[Edit]:
    for place, item in enumerate(items):
        if isinstance(item, (ast.expr, ast.keyword)):
            yield functools.partial(edited, tree, index, _drop(field, place))
        for part in _parts(item, may_be_fresh=False) if isinstance(item, ast.expr) else ():
            yield functools.partial(edited, tree, index, _set_item(field, place, part))


def _set(field: str, part: ast.expr) -> Callable[[Any], None]:
    return lambda node: setattr(node, field, copy.deepcopy(part))


def _set_item(field: str, place: int, part: ast.expr) -> Callable[[Any], None]:
    return lambda node: getattr(node, field).__setitem__(place, copy.deepcopy(part))


def _drop(field: str, place: int) -> Callable[[Any], None]:
    def edit(node: Any) -> None:
        del getattr(node, field)[place]
        if isinstance(node, ast.Dict):
            del (node.values if field == "keys" else node.keys)[place]

    return edit


def _parts(value: ast.expr, *, may_be_fresh: bool) -> Iterator[ast.expr]:
    """What an expression may be replaced by."""
    is_long = sum(1 for _ in ast.walk(value)) > _FRESH_FROM
    if may_be_fresh and is_long and not ast.unparse(value).startswith("torch.ones("):
        yield parse_python("torch.ones(2)", "eval").body
    if isinstance(value, ast.Call):
        yield from (item.value if isinstance(item, ast.Starred) else item for item in value.args)
        yield from (item.value for item in value.keywords)
        if isinstance(value.func, ast.Attribute):
            yield value.func.value
    elif isinstance(value, (ast.Subscript, ast.Attribute, ast.Starred)):
        yield from [value.value] if is_long else ()
    elif isinstance(value, ast.JoinedStr):
        yield from (item.value for item in value.values if isinstance(item, ast.FormattedValue))
    elif isinstance(value, (ast.ListComp, ast.GeneratorExp, ast.SetComp)):
        yield value.generators[0].iter
    elif isinstance(value, ast.Constant) and isinstance(value.value, int) and value.value > _SMALL:
        yield ast.Constant(_SMALL)
    else:
        yield from _operands(value)


def _operands(value: ast.expr) -> Iterator[ast.expr]:
    for kind, fields in _OPERANDS.items():
        for field in fields if isinstance(value, kind) else ():
            part = getattr(value, field)
            yield from part if isinstance(part, list) else [part]


_OPERANDS: dict[type[ast.expr], tuple[str, ...]] = {
    ast.BinOp: ("left", "right"),
    ast.BoolOp: ("values",),
    ast.UnaryOp: ("operand",),
    ast.IfExp: ("body", "orelse"),
    ast.Compare: ("left",),
    ast.Tuple: ("elts",),
    ast.List: ("elts",),
}
"""The fields of an expression that may stand in its place."""


def without_parameters(tree: ast.Module) -> Iterator[Edit]:
    """A function without one of its parameters, and its calls without the argument."""
    for index, node in enumerate(ast.walk(tree)):
        if not isinstance(node, _FUNCTIONS):
            continue
        used = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
        parameters = [*node.args.posonlyargs, *node.args.args]
        for place, parameter in enumerate(parameters):
            if parameter.arg not in used:
                yield functools.partial(_without_parameter, tree, index, place, parameter.arg)
        for field in ("vararg", "kwarg"):
            held = getattr(node.args, field)
            if held is not None and held.arg not in used:
                yield functools.partial(edited, tree, index, functools.partial(_drop_rest, field))


def _drop_rest(field: str, function: Any) -> None:
    setattr(function.args, field, None)


def _without_parameter(tree: ast.Module, index: int, place: int, name: str) -> ast.Module:
    changed = copy.deepcopy(tree)
    nodes = list(ast.walk(changed))
    function: Any = nodes[index]
    arguments = function.args
    parameters = [*arguments.posonlyargs, *arguments.args]
    from_end = len(parameters) - place
    if from_end <= len(arguments.defaults):
        del arguments.defaults[len(arguments.defaults) - from_end]
    own = arguments.posonlyargs if place < len(arguments.posonlyargs) else arguments.args
    own.remove(parameters[place])
    for node in nodes:
        if not isinstance(node, ast.Call):
            continue
        is_method = isinstance(node.func, ast.Attribute) and node.func.attr == function.name
        is_plain = isinstance(node.func, ast.Name) and node.func.id == function.name
        at = place - 1 if is_method else place
        if (is_method or is_plain) and 0 <= at < len(node.args):
            del node.args[at]
        if is_method or is_plain:
            node.keywords = [keyword for keyword in node.keywords if keyword.arg != name]
    return changed


def without_unused(tree: ast.Module) -> ast.Module:
    """The tree without top-level names and attributes of objects that nothing mentions."""
    changed = copy.deepcopy(tree)
    while True:
        words = _words(changed)
        left = [statement for statement in changed.body[:-1] if _is_used(statement, words)]
        if len(left) + 1 == len(changed.body):
            return changed
        changed.body[:-1] = left


def _words(tree: ast.Module) -> dict[str, int]:
    """How many statements at the top level read each name, attribute or text, and do not define it."""
    counts: dict[str, int] = {}
    for statement in tree.body:
        own = getattr(statement, "name", None)
        words = set()
        for node in ast.walk(statement):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                words.add(node.id)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                words.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                words.add(node.value)
        for word in words - {own}:
            counts[word] = counts.get(word, 0) + 1
    return counts


def _is_used(statement: ast.stmt, words: dict[str, int]) -> bool:
    if isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
        return words.get(statement.name, 0) > 0
    if isinstance(statement, ast.Import):
        bound = [alias.asname or alias.name.partition(".")[0] for alias in statement.names]
        return any(words.get(name, 0) for name in bound) or "torch" in bound
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        target = statement.targets[0]
        if isinstance(target, ast.Name):
            return words.get(target.id, 0) > 0
        if isinstance(target, ast.Attribute):
            return words.get(target.attr, 0) > 0
    return True


def inlined(tree: ast.Module) -> ast.Module:
    """The tree with the values of top-level variables in their place that are constants, names, or used once."""
    changed = copy.deepcopy(tree)
    while (variable := _inlinable(changed)) is not None:
        statement, name, value = variable
        changed.body.remove(statement)
        changed = _Inline(name, value).visit(changed)
    return changed


def _inlinable(tree: ast.Module) -> tuple[ast.stmt, str, ast.expr] | None:
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    shared = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    for statement in tree.body[:-1]:
        if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
            continue
        target, value = statement.targets[0], statement.value
        if not isinstance(target, ast.Name) or target.id in shared:
            continue
        stores = sum(node.id == target.id and isinstance(node.ctx, ast.Store) for node in names)
        loads = sum(node.id == target.id and isinstance(node.ctx, ast.Load) for node in names)
        at_top = sum(
            isinstance(node, ast.Name) and node.id == target.id
            for other in tree.body
            if not isinstance(other, (*_FUNCTIONS, ast.ClassDef))
            for node in ast.walk(other)
        )
        is_once = loads == 1 and at_top == 2  # noqa: PLR2004 - its assignment and its use, which is not in a function
        if stores == 1 and (isinstance(value, (ast.Constant, ast.Name)) or is_once):
            return statement, target.id, value
    return None


class _Inline(ast.NodeTransformer):
    def __init__(self, name: str, value: ast.expr) -> None:
        self._name, self._value = name, value

    def visit_Name(self, node: ast.Name) -> ast.expr:
        is_it = node.id == self._name and isinstance(node.ctx, ast.Load)
        return copy.deepcopy(self._value) if is_it else node
