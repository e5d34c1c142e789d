"""Which statements of a notebook run for a target, and what is left out.

Invariant: only cells above the target and its own run, in their order. A cell that does not parse, and a statement
with an effect that is known by reading, are left out, with what needs them; every other statement runs as it is. One
that the target does not need may fail. Without a target the notebook runs as a program: all that is Python.
"""

from __future__ import annotations
import __future__

import ast
import re
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from fuselight.shared.foreign_data import parse_python
from fuselight.shared.notebooks.effects import COMMAND, DOWNLOADS, EffectReader, bound_names, read_names
from fuselight.shared.notebooks.module_text import split_module

_DIRECTIVE = re.compile(r"[ \t]*#[ \t]*fuselight:(?P<words>.*)")
_DEFINITE = (ast.Assign, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
"""Statements after which a name has no value from before."""
_BINDS_ONLY = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_NAME = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class LeftOut:
    """Lines of a module that do not run."""

    line: int
    """1-based."""
    end_line: int
    reason: str
    """In words that follow the subject: `trains`, `does not parse: invalid syntax`."""
    is_broken: bool = False
    """Whether it is a cell that does not parse."""


@dataclass(frozen=True)
class RunSelection:
    """What runs."""

    tree: ast.Module
    """With the lines of the whole module."""
    flags: int
    """For `compile`: top-level `await`, and what the cells import from `__future__`."""
    left_out: tuple[LeftOut, ...]
    last_line: int
    """The last line of the cells that were considered."""
    optional: frozenset[int] = frozenset()
    """Indices in `tree.body` of the statements without which the target is the same."""


@dataclass(frozen=True)
class _Statement:
    node: ast.stmt
    words: str = ""
    """Of the directives above it."""

    @property
    def line(self) -> int:
        decorators = getattr(self.node, "decorator_list", None)
        lines: list[int] = [self.node.lineno, *(decorator.lineno for decorator in decorators or ())]
        return min(lines)

    @property
    def end_line(self) -> int:
        return self.node.end_lineno or self.node.lineno


def select_statements(text: str, target_line: int | None = None) -> RunSelection:
    """Choose what of the module `text` runs for the target on `target_line`; None: what runs of a program."""
    statements: list[_Statement] = []
    left_out: list[LeftOut] = []
    last_line = 1
    for first, lines in split_module(text):
        if target_line is not None and first > target_line:
            break
        last_line = first + len(lines) - 1
        cell = _parsed(lines, first)
        if isinstance(cell, LeftOut):
            left_out.append(cell)
        else:
            statements += (_Statement(node, _words_above(lines, node, first)) for node in cell.body)
    statements, flags = _without_future(statements)
    kept, effects = _without_effects(statements, target_line)
    optional = frozenset(_optional(kept, target_line)) if target_line is not None else frozenset()
    tree = ast.Module([statement.node for statement in kept], [])
    ordered = tuple(sorted((*left_out, *effects), key=lambda item: item.line))
    return RunSelection(tree, flags | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, ordered, last_line, optional)


def parse_cells(text: str) -> ast.Module:
    """Parse a module without its cells that do not parse."""
    cells = (_parsed(lines, first) for first, lines in split_module(text))
    return ast.Module([node for cell in cells if isinstance(cell, ast.Module) for node in cell.body], [])


def broken_cells(text: str) -> tuple[LeftOut, ...]:
    """Return the cells of a module that do not parse."""
    cells = (_parsed(lines, first) for first, lines in split_module(text))
    return tuple(cell for cell in cells if isinstance(cell, LeftOut))


def without_broken_cells(text: str) -> str:
    """Return a module with empty lines in the place of its cells that do not parse, which no run has."""
    lines = text.split("\n")
    for cell in broken_cells(text):
        lines[cell.line - 1 : cell.end_line] = [""] * (cell.end_line - cell.line + 1)
    return "\n".join(lines)


def _parsed(lines: list[str], first: int) -> ast.Module | LeftOut:
    """The statements of a cell on the lines of the module."""
    code = "\n".join(lines)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the user's escapes
            # Compiling it finds what parsing lets through, as `return` outside of a function.
            compile(code, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
            tree = parse_python(code)
    except SyntaxError as error:
        return _broken(lines, first, error.msg)
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        return _broken(lines, first, str(error) or type(error).__name__)
    ast.increment_lineno(tree, first - 1)
    return tree


def _broken(lines: list[str], first: int, why: str) -> LeftOut:
    used = [row for row, line in enumerate(lines) if line.strip()] or [0]
    return LeftOut(first + used[0], first + used[-1], f"does not parse: {why}", is_broken=True)


def _words_above(lines: list[str], node: ast.stmt, first: int) -> str:
    row = _Statement(node).line - first - 1
    words = []
    while row >= 0 and lines[row].lstrip().startswith("#"):
        directive = _DIRECTIVE.match(lines[row])
        words.append(directive["words"] if directive else "")
        row -= 1
    return " ".join(words)


def _without_future(statements: list[_Statement]) -> tuple[list[_Statement], int]:
    """Take out the imports from `__future__`, which hold for all cells once one has run, as in IPython."""
    flags, rest = 0, []
    for statement in statements:
        node = statement.node
        if isinstance(node, ast.ImportFrom) and node.module == "__future__" and not node.level:
            for name in node.names:
                flags |= getattr(getattr(__future__, name.name, None), "compiler_flag", 0)
        else:
            rest.append(statement)
    return rest, flags


def _optional(statements: list[_Statement], target_line: int) -> Iterator[int]:
    """The indices of the statements without which the target is the same, by reading them."""
    modules = {name for statement in statements for name in _modules_in(statement.node)}
    needed = _needed(statements, target_line, modules)
    for row, statement in enumerate(statements):
        node = statement.node
        is_star = isinstance(node, ast.ImportFrom) and any(alias.name == "*" for alias in node.names)
        if statement.line not in needed and not is_star:
            yield row


def _modules_in(node: ast.stmt) -> Iterator[str]:
    """The names of imported modules, which statements that call their functions leave as they are."""
    if isinstance(node, ast.Import) or (
        isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "torch"
    ):
        yield from bound_names(node)


def _binds_only(node: ast.stmt) -> bool:
    """Whether a statement changes nothing but the names that it binds."""
    return isinstance(node, _BINDS_ONLY) or (
        isinstance(node, ast.Assign) and all(map(_is_names, node.targets))
    )


def _is_names(target: ast.expr) -> bool:
    """Whether what is assigned to is names alone: no attribute and no item of something."""
    return all(
        isinstance(node, (ast.Name, ast.Tuple, ast.List, ast.Starred, ast.expr_context))
        for node in ast.walk(target)
    )


def _needed(
    statements: list[_Statement], target_line: int | None, modules: Collection[str] | None = None
) -> set[int]:
    """The lines of the statements that give the target's statement its names, directly or not.

    `modules`: names that no statement changes; with it, also the lines of what may change the value of another name.
    """
    lines: set[int] = set()
    names: set[str] = set()
    for statement in reversed(statements):
        node = statement.node
        is_target = target_line is not None and statement.line <= target_line <= statement.end_line
        bound = set(bound_names(node))
        changeable = names.difference(modules) if modules is not None and not _binds_only(node) else ()
        may_change = not frozenset(changeable).isdisjoint(read_names(node, deep=False))
        if is_target or may_change or not names.isdisjoint(bound):
            lines.add(statement.line)
            if isinstance(node, _DEFINITE):
                names -= bound
            names.update(read_names(node, deep=True), _NAME.findall(statement.words))
    return lines


def _without_effects(
    statements: list[_Statement], target_line: int | None
) -> tuple[list[_Statement], list[LeftOut]]:
    """Take out the statements with an effect, and those that need the names that only these give values."""
    reader, needed = EffectReader(), _needed(statements, target_line)
    kept: list[_Statement] = []
    left_out: list[LeftOut] = []
    lost: set[str] = set()
    known: set[str] = set()
    for statement in statements:
        reason = reader.effect(statement.node)
        if (reason == DOWNLOADS and statement.line in needed) or (target_line is None and reason != COMMAND):
            reason = None
        missing = next((name for name in read_names(statement.node, deep=False) if name in lost), None)
        if reason is None and missing is not None:
            reason = f"needs `{missing}`, which is left out"
        names = set(bound_names(statement.node))
        if reason is None:
            kept.append(statement)
            known |= names
            lost -= names
        else:
            left_out.append(LeftOut(statement.line, statement.end_line, reason))
            lost |= names - known
    return kept, left_out
