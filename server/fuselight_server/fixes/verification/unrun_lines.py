"""Changed lines that no compared call has run: whatever they do, the results are the same.

Invariant: a line is named only where it is known which lines ran, and only if Python itself would have run it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence

from fuselight.shared.foreign_data import try_parse_python
from fuselight.shared.report import LinesRun, Verification
from fuselight_server.base.finding import SourceLine
from fuselight_server.source.line_map import LineMap

_WITHOUT_CODE = (ast.Pass, ast.Break, ast.Continue, ast.Global, ast.Nonlocal, ast.Try)
"""Statements that have no line of their own when they run, or may have none."""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def lines_not_run(
    old: Mapping[str, str], new: Mapping[str, str], verifications: Sequence[Verification]
) -> tuple[tuple[SourceLine, ...], tuple[SourceLine, ...]]:
    """The first lines of changed statements that no ordinary call ran: of the new texts, and those of the old ones."""
    return (
        _not_run(old, new, [verification.lines_run for verification in verifications]),
        _not_run(new, old, [verification.old_lines_run for verification in verifications]),
    )


def _not_run(
    other: Mapping[str, str], texts: Mapping[str, str], lines_run: Iterable[Iterable[LinesRun]]
) -> tuple[SourceLine, ...]:
    """The lines of `texts` alone that did not run."""
    runs = [{run.path: run.lines for run in part} for part in lines_run]
    rows = []
    for path, text in texts.items():
        if not runs or any(path not in run for run in runs):
            continue  # not known
        ran = {line for run in runs for line in run[path]}
        lines = LineMap.between(other.get(path, ""), text)
        for first, last in _statements(text):
            span = range(first, last + 1)
            if any(not lines.then(line) for line in span) and ran.isdisjoint(span):
                rows.append(SourceLine(path, first))
    return tuple(rows)


def _statements(text: str) -> Iterator[tuple[int, int]]:
    """Yield the first and last line of each statement in a function; of one with a body, those of its head."""
    tree = try_parse_python(text)
    if tree is None:
        return
    for function in ast.walk(tree):
        if isinstance(function, _FUNCTIONS) and not _is_compiled_elsewhere(function):
            yield from _statements_in(function.body)


def _is_compiled_elsewhere(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a decorator takes the source, as those of Triton, TorchScript and Numba do: Python never runs it."""
    names = (ast.unparse(decorator) for decorator in function.decorator_list)
    return any("jit" in name or "script" in name for name in names)


def _statements_in(body: list[ast.stmt]) -> Iterator[tuple[int, int]]:
    for statement in body:
        if _has_code(statement):
            yield statement.lineno, _head_end(statement)
        if not isinstance(statement, (*_FUNCTIONS, ast.ClassDef)):
            for inner in _bodies(statement):
                yield from _statements_in(inner)


def _has_code(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return False
    if isinstance(statement, ast.AnnAssign) and statement.value is None:
        return False
    return not isinstance(statement, _WITHOUT_CODE)


def _bodies(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    is_compiled_only = isinstance(statement, ast.If) and "is_compiling" in ast.unparse(statement.test)
    for name in ("orelse",) if is_compiled_only else ("body", "orelse", "finalbody"):
        yield getattr(statement, name, [])
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body


def _head_end(statement: ast.stmt) -> int:
    """The last line of a statement before its body."""
    inner = getattr(statement, "body", None) or getattr(statement, "cases", None)
    if not inner:
        return statement.end_lineno or statement.lineno
    first = inner[0].pattern if isinstance(inner[0], ast.match_case) else inner[0]
    return max(statement.lineno, first.lineno - 1)
