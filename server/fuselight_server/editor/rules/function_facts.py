"""What the text of a function says of its names, and what the run saw of them."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from fuselight_server.editor.rules.functions import EditedFunction
from fuselight_server.editor.rules.values import KnownValue, common
from fuselight_server.source.class_sources import dotted_name


def bound_names(nodes: Iterable[ast.AST]) -> set[str]:
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


def local_names(function: EditedFunction) -> frozenset[str]:
    """The names that the function binds, its parameters among them."""
    node = function.node
    given = node.args
    names = {argument.arg for argument in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
    names |= {argument.arg for argument in (given.vararg, given.kwarg) if argument is not None}
    return frozenset(names | bound_names(node.body))


def attribute_facts(function: EditedFunction) -> dict[str, KnownValue | None]:
    """What `self.weight` and the like are in old expressions of the function, if it never assigns them."""
    known_values: dict[str, KnownValue | None] = {}
    assigned: set[str] = set()
    for node in ast.walk(function.node):
        if isinstance(node, ast.Attribute):
            text = dotted_name(node)
            if not isinstance(node.ctx, ast.Load):
                assigned.add(text)
            elif text and (fact := function.fact(node)) is not None:
                known_values[text] = common(known_values[text], fact) if text in known_values else fact
    return {text: value for text, value in known_values.items() if text not in assigned}


def parameter_facts(function: EditedFunction) -> dict[str, KnownValue | None]:
    """What the run saw of the parameters, until something assigns them."""
    node = function.node
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
            fact = function.fact(use)
            if fact is not None:
                known_values[use.id] = fact
    return known_values
