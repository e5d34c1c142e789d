"""What traced functions assign that outlives the call: attributes, entries, variables of outer functions."""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.source_tree import function_tree, tree_around

WHOLE = ""
"""Stands for a key where the value itself is assigned, or an entry that only the run knows."""
_OUTER = (ast.Global, ast.Nonlocal)


@dataclass(frozen=True)
class StateWrites:
    """What the traced functions of a report assign, by last names, as `step` of `self.step`."""

    trees: tuple[ast.Module, ...]
    """The functions."""
    written: Mapping[str, frozenset[tuple[str, str]]]
    """Each name, with the last name of the object that it is of, and the key of an entry as Python writes it."""
    together: tuple[frozenset[str], ...]
    """What each branch assigns."""


@functools.lru_cache(maxsize=4)
def state_writes(context: Context) -> StateWrites:
    """What the functions of the user's assign that compiled code ran."""
    trees = tuple(_traced_trees(context))
    return StateWrites(trees, _written_state(trees), tuple(_written_together(trees)))


def _traced_trees(context: Context) -> list[ast.Module]:
    """The functions of the user's that were compiled, or that compiled code ran operators or read values in."""
    report = context.report
    operators = (stack for item in report.compiles if item.graph is not None for stack in item.graph.lines)
    entries = (entry for item in report.recompiles for entry in item.entries)
    reads = (failure.born for entry in entries for failure in entry.failures)
    places = {
        (at.path, at.function): at
        for stack in (*operators, *reads)
        for at in stack
        if context.is_user_file(at.path)
    }
    frames = {frame.location: None for frame in report.frames if context.is_user_file(frame.location.path)}
    trees = (
        *((place.path, function_tree(context.read_line, place)) for place in frames),
        *((place.path, tree_around(context, place)) for place in places.values()),
    )
    known = {(path, _first_line(tree)): tree for path, tree in trees if tree is not None}
    return list(known.values())


def _first_line(tree: ast.Module) -> int:
    """The line of the function in a tree."""
    functions = (node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)))
    return next((node.lineno for node in functions), 0)


def _written_state(trees: Iterable[ast.Module]) -> Mapping[str, frozenset[tuple[str, str]]]:
    written: dict[str, set[tuple[str, str]]] = {}
    for tree in trees:
        outer = {name for node in ast.walk(tree) if isinstance(node, _OUTER) for name in node.names}
        for name, owner, key in _written_in(ast.walk(tree), outer):
            written.setdefault(name, set()).add((owner, key))
    return {name: frozenset(places) for name, places in written.items()}


def _written_together(trees: Iterable[ast.Module]) -> list[frozenset[str]]:
    bodies = (node.body for tree in trees for node in ast.walk(tree) if isinstance(node, ast.If))
    groups = (frozenset(names_written(body)) for body in bodies)
    return [names for names in groups if len(names) > 1]


def names_written(statements: Iterable[ast.stmt]) -> set[str]:
    """The last names of what statements assign."""
    return {name for statement in statements for name, *_ in _written_in(ast.walk(statement))}


def _written_in(nodes: Iterable[ast.AST], outer: Iterable[str] = ()) -> Iterator[tuple[str, str, str]]:
    """What some nodes assign: last name, that of its owner, key. `outer` are variables of outer functions."""
    for node in nodes:
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            key = repr(node.slice.value) if isinstance(node.slice, ast.Constant) else WHOLE
            yield last_name(node.value), _owner(node.value), key
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr, _owner(node), WHOLE
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in outer:
            yield node.id, "", WHOLE
        elif isinstance(node, ast.Call) and (name := _registered(node)):
            yield name, _owner(node.func), WHOLE


def _owner(node: ast.AST) -> str:
    """The last name of the object that an attribute is of; empty for a variable."""
    return last_name(node.value) if isinstance(node, ast.Attribute) else ""


def _registered(call: ast.Call) -> str:
    """The attribute that `register_buffer` or `setattr` assigns; empty for other calls."""
    position = {"register_buffer": 0, "setattr": 1}.get(last_name(call.func), -1)
    argument = call.args[position] if 0 <= position < len(call.args) else None
    return str(argument.value) if isinstance(argument, ast.Constant) else ""


def last_name(node: ast.AST) -> str:
    """The last name of an attribute, or a variable; empty for other expressions."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
