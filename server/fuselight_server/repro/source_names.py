"""Neutral names and texts for a program that is Python source.

Invariant: one name stands for one name everywhere, so that a keyword of a call and its parameter stay the same.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator, Mapping

from fuselight.shared.foreign_data import parse_python
from fuselight_server.repro.source_program import names_of

_OF_TORCH = frozenset({
    "backward", "device", "dtype", "forward", "grad", "jvp", "load_state_dict", "self", "setup_context", "shape",
    "state_dict", "training", "vmap",
})  # fmt: skip
"""Names that torch calls or that have a meaning for it."""


def neutral_names(tree: ast.Module) -> dict[str, str]:
    """A neutral name for each name that the program defines: `f` and `g`, `A` and `B`, `x0` and `x1`."""
    functions, classes, methods = _definitions(tree)
    taken = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - names_of(tree)
    fresh = {kind: _fresh(kind, taken) for kind in ("f", "A", "x")}
    imported = {
        alias.asname or alias.name.partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    names: dict[str, str] = {}
    for name in _in_order(tree):
        if name in names or name in _OF_TORCH or name in imported or name.startswith("__"):
            continue
        kind = "A" if name in classes else "f" if name in functions | methods else "x"
        names[name] = next(fresh[kind])
    return names


def _fresh(kind: str, taken: set[str]) -> Iterator[str]:
    first = {"f": ("f", "g", "h"), "A": ("A", "B", "C"), "x": ("x", "y", "z")}[kind]
    every = itertools.chain(first, (f"{kind}{number}" for number in itertools.count(1)))
    return (name for name in every if name not in taken)


def _definitions(tree: ast.Module) -> tuple[set[str], set[str], set[str]]:
    functions = {
        node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    }
    classes = {node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    methods = {item.name for node in classes for item in node.body if isinstance(item, ast.FunctionDef)}
    return functions, {node.name for node in classes}, methods


def _in_order(tree: ast.Module) -> Iterator[str]:
    """The names in the order of the text, the compiled function first."""
    last = tree.body[-1]
    if (
        isinstance(last, ast.Expr)
        and isinstance(last.value, ast.Call)
        and isinstance(last.value.func, ast.Name)
    ):
        yield last.value.func.id
    known = names_of(tree)
    for statement in tree.body:
        places = [
            (getattr(node, "lineno", 0), getattr(node, "col_offset", 0), node) for node in ast.walk(statement)
        ]
        for _, _, node in sorted(places, key=lambda place: place[:2]):
            for word in (getattr(node, field, None) for field in ("name", "arg", "id", "attr")):
                if isinstance(word, str) and word in known:
                    yield word


def neutral_texts(tree: ast.Module) -> dict[str, str]:
    """`a`, `b` and so on for each text of the program."""
    texts = {
        node.value: None
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value
    }
    letters = itertools.chain("abcdefghijklmnopqrstuvwxyz", (f"a{number}" for number in itertools.count(1)))
    return dict(zip(texts, letters, strict=False))


def renamed(tree: ast.Module, names: Mapping[str, str], texts: Mapping[str, str]) -> ast.Module:
    """The program with other names and texts; a text that is a renamed name gets the name."""
    changed = parse_python(ast.unparse(tree))
    _Renamed(names, {**texts, **{text: names[text] for text in texts if text in names}}).visit(changed)
    return changed


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str], texts: Mapping[str, str]) -> None:
        self._names, self._texts = names, texts

    def generic_visit(self, node: ast.AST) -> ast.AST:
        for field in ("name", "arg", "id", "attr"):
            word = getattr(node, field, None)
            if isinstance(word, str) and word in self._names and not isinstance(node, ast.alias):
                setattr(node, field, self._names[word])
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            node.names = [self._names.get(name, name) for name in node.names]
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = self._texts.get(node.value, node.value)
        return super().generic_visit(node)
