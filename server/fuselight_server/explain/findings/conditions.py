"""Which condition a recorded branch is about, and whether it always had the same value.

Invariant: what is said follows from the values of the operands that were tested, else nothing is said. A branch has the
span of the operand since Python 3.12, and often that of the entire statement before.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass

from fuselight.shared.foreign_data import parse_python
from fuselight.shared.report import Branch
from fuselight_server.base.finding import Span

_STATEMENT = re.compile(rb"(?:if|elif|while|assert)\b")


@dataclass(frozen=True)
class OneSided:
    """A condition with a side that was never traced."""

    span: Span
    always: bool
    """The only value that it had."""

    @property
    def words(self) -> str:
        """`always true`."""
        return f"always {'true' if self.always else 'false'}"


def one_sided(branch: Branch, path: str, read_line: Callable[[str, int], str | None]) -> OneSided | None:
    """Return the condition of a branch if it always had the same value; None if it had both, or is not certain."""
    if bool(branch.true) == bool(branch.false):
        return None
    source_lines = [read_line(path, line) for line in range(branch.line, branch.end_line + 1)]
    lines = [line.encode("utf-8", "surrogatepass") for line in source_lines if line is not None]
    if not lines or len(lines) < len(source_lines):
        return None
    lines[-1] = lines[-1][: branch.end_column]
    test = _test(lines, branch.column)
    if test is None:
        return None
    node, always = test, bool(branch.true)
    while isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        node, always = node.operand, not always
    if not _is_plain(node) or not _is_decided(lines, branch, node):
        return None
    first = branch.line - 2  # one line was put before
    span = Span(
        path,
        test.lineno + first,
        test.col_offset,
        (test.end_lineno or test.lineno) + first,
        test.end_col_offset,
    )
    return OneSided(span, always)


def _test(lines: list[bytes], column: int) -> ast.expr | None:
    """Return the condition within a span, with one line before it."""
    head, rest = lines[0][:column], lines[0][column:]
    text = b"\n".join([(head if head.isspace() else b" " * column) + rest, *lines[1:]])
    try:
        if not _STATEMENT.match(rest):
            return _tested(parse_python(b"(\n" + text + b"\n)", mode="eval").body)
        opening = b"if 1:\n" if column else b"\n"
        if rest.startswith(b"elif"):
            text = text.replace(b"elif", b"if  ", 1)
        statement = parse_python(opening + text).body[0]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if column and isinstance(statement, ast.If):
        statement = statement.body[0]
    return statement.test if isinstance(statement, (ast.If, ast.While, ast.Assert)) else None


def _tested(node: ast.expr) -> ast.expr | None:
    if isinstance(node, (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        return None
    return node.test if isinstance(node, ast.IfExp) else node


def _is_plain(node: ast.expr) -> bool:
    """Whether equal values of all tested operands are the value of the condition."""
    if isinstance(node, ast.BoolOp):
        return all(map(_is_plain, node.values))
    is_not = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    return not is_not and not isinstance(node, ast.IfExp)


def _is_decided(lines: list[bytes], branch: Branch, node: ast.expr) -> bool:
    """Whether the tested operands decide the condition.

    The last operand of `y = a or b` is not tested: `b` is never evaluated only if `a` is always true.
    """
    if not isinstance(node, ast.BoolOp) or _STATEMENT.match(lines[0][branch.column :]):
        return True
    return isinstance(node.op, ast.Or) == bool(branch.true)
