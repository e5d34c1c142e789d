"""Finds the handler of an exception that the user's code raises: an assert in the graph never reaches it.

Invariant: only frames that the report has are searched, innermost first. A class that no file of these frames defines
has no other bases than Exception. A handler that ends with a `raise` passes the exception on, or another one.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from fuselight.shared.foreign_data import try_parse_python
from fuselight.shared.report import Location, Stack
from fuselight_server.explain.findings.common.context import Context

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_Block = ast.Try | ast.With | ast.AsyncWith
_SUPPRESSING = frozenset({"suppress", "raises", "assertRaises"})
"""Functions of contextlib, pytest and unittest whose `with` block ends the exceptions that they get."""


@dataclass(frozen=True)
class Handler:
    """What ends an exception of compiled code in eager mode."""

    text: str
    """``except ValueError``."""
    path: str
    line: int

    def words(self, path: str) -> str:
        """The handler with its line, for a finding in the file `path`."""
        file = "" if path == self.path else f" of {PurePath(self.path).name}"
        return f"`{self.text}` on line {self.line}{file}"


def handler_of(context: Context, at: Location, raised: str) -> Handler | None:
    """The innermost handler for the exception `raised` of the line `at`, among the calls that broke the graph there."""
    report = context.report
    stacks = (
        *((*item.above, *item.stack) for item in report.breaks if _ends_at(item.stack, at)),
        *(item.stack for item in report.failures if _ends_at(item.stack, at)),
    )
    trees: dict[str, ast.Module | None] = {}
    for stack in dict.fromkeys(stacks) or ((at,),):
        users = [frame for frame in stack if context.is_user_file(frame.path)]
        for frame in users:
            if frame.path not in trees:
                trees[frame.path] = try_parse_python(context.text_of(frame.path))
        handler = _in_frames(users, trees, raised)
        if handler is not None:
            return handler
    return None


def _ends_at(stack: Stack, at: Location) -> bool:
    return bool(stack) and (stack[-1].path, stack[-1].line) == (at.path, at.line)


def _in_frames(
    frames: Sequence[Location], trees: dict[str, ast.Module | None], raised: str
) -> Handler | None:
    known = [tree for tree in trees.values() if tree is not None]
    for frame in reversed(frames):
        tree = trees[frame.path]
        for node in reversed(_blocks(tree, frame.line) if tree is not None else []):
            handler, raised = _end_of(node, frame, raised, _with_bases(raised, known))
            if handler is not None:
                return handler
    return None


def _blocks(tree: ast.AST, line: int) -> list[_Block]:
    """The `try` and `with` statements whose body has a line, in the function that the line is in; outermost first."""
    blocks: list[_Block] = []
    for node in _around(tree, line):
        if isinstance(node, _SCOPES):
            blocks.clear()
        elif isinstance(node, (ast.Try, ast.With, ast.AsyncWith)) and (
            node.body[0].lineno <= line <= (node.body[-1].end_lineno or line)
        ):
            blocks.append(node)
    return blocks


def _around(tree: ast.AST, line: int) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(tree):
        if getattr(child, "lineno", line + 1) <= line <= (getattr(child, "end_lineno", None) or 0):
            yield child
            yield from _around(child, line)


def _end_of(node: _Block, frame: Location, raised: str, names: set[str]) -> tuple[Handler | None, str]:
    """What ends an exception in a block, and the exception that leaves the block otherwise."""
    for item in node.items if isinstance(node, (ast.With, ast.AsyncWith)) else ():
        manager = item.context_expr
        if (
            isinstance(manager, ast.Call)
            and _last(manager.func) in _SUPPRESSING
            and _catches(manager.args, names)
        ):
            return Handler(f"with {ast.unparse(manager)}", frame.path, node.lineno), raised
    for clause in node.handlers if isinstance(node, ast.Try) else ():
        caught = clause.type.elts if isinstance(clause.type, ast.Tuple) else [clause.type]
        if clause.type is not None and not _catches(caught, names):
            continue
        end = clause.body[-1]
        if not isinstance(end, ast.Raise):
            text = f"except {ast.unparse(clause.type)}" if clause.type is not None else "except"
            return Handler(text, frame.path, clause.lineno), raised
        again = end.exc is None or (isinstance(end.exc, ast.Name) and end.exc.id == clause.name)
        return None, raised if again else raised_name(end)
    return None, raised


def raised_name(statement: ast.stmt) -> str:
    """The exception of a `raise` or an `assert`, as the code names it; empty where it names none."""
    if isinstance(statement, ast.Assert):
        return AssertionError.__name__
    value = statement.exc if isinstance(statement, ast.Raise) else None
    value = value.func if isinstance(value, ast.Call) else value
    return _last(value) if value is not None else ""


def _catches(kinds: Sequence[ast.expr | None], names: set[str]) -> bool:
    return any(_last(kind) in names for kind in kinds if kind is not None)


def _last(name: ast.expr) -> str:
    return ast.unparse(name).rpartition(".")[2]


def _with_bases(raised: str, trees: Sequence[ast.Module]) -> set[str]:
    """The names of an exception and of its bases, as far as the trees define them."""
    names, wanted = {"Exception", "BaseException"}, [raised]
    classes = {
        node.name: [_last(base) for base in node.bases]
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    }
    while wanted:
        name = wanted.pop()
        if name in names:
            continue
        names.add(name)
        kind = getattr(builtins, name, None)
        wanted += classes.get(name, [base.__name__ for base in getattr(kind, "__mro__", ())])
    return names
