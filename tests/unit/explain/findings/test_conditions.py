"""Conditions with a side that was never traced: what a branch means under each layout of Python's positions."""

from __future__ import annotations

import pytest

from fuselight.shared.report import Branch
from fuselight_server.explain.findings.conditions import one_sided


def condition(text: str, span: str | None, true: int, false: int) -> tuple[str, bool] | None:
    """The text and the value of the condition of the branch with this span, None for the span of the statement."""
    lines = text.splitlines()
    start = len(lines[0]) - len(lines[0].lstrip()) if span is None else lines[0].index(span)
    end = (len(lines), len(lines[-1])) if span is None else (1, start + len(span))
    branch = Branch(1, start, end[0], end[1], true, false)
    one_sided_condition = one_sided(
        branch, "m.py", lambda _, line: lines[line - 1] if line <= len(lines) else None
    )
    if one_sided_condition is None:
        return None
    assert one_sided_condition.span.end_line == one_sided_condition.span.line
    return lines[one_sided_condition.span.line - 1][
        one_sided_condition.span.column : one_sided_condition.span.end_column
    ], one_sided_condition.always


@pytest.mark.parametrize(
    ("text", "span", "values", "expected"),
    [
        # Since Python 3.12: the operand.
        ("    if not a:\n        f()", "a", (3, 0), ("a", True)),
        ("    if a > 3:\n        f()", "a > 3", (0, 3), ("a > 3", False)),
        ("x = a < b < c", "a < b < c", (0, 3), ("a < b < c", False)),
        ("x = a", "a", (3, 1), None),
        ("x = a", "a", (0, 0), None),
        # Before: the statement, with the values of its operands.
        ("    if a:\n        f()", None, (3, 0), ("a", True)),
        ("    if not a:\n        f()", None, (3, 0), ("not a", False)),
        ("if not (a or b):\n    f()", None, (0, 6), ("not (a or b)", True)),
        ("  if a and b:\n    f()", None, (0, 3), ("a and b", False)),
        ("  if a and not b:\n    f()", None, (3, 0), None),
        ("  while not a:\n    f()", None, (0, 1), ("not a", True)),
        ("\tassert é", None, (1, 0), None),
        ("    elif a:\n        f()\n    else:\n        g()", None, (0, 2), ("a", False)),
        ("    if a\n        f()", None, (1, 0), None),
        # An expression.
        ("x = 1 if not a else 2", "1 if not a else 2", (2, 0), ("not a", False)),
        ("x = a or b", "a or b", (2, 0), ("a or b", True)),
        ("x = a or b", "a or b", (0, 2), None),
        ("x = a and b", "a and b", (0, 2), ("a and b", False)),
        ("x = [q for q in a if not q]", "[q for q in a if not q]", (2, 0), None),
    ],
)
def test_a_condition_is_named_where_its_value_is_certain(
    text: str, span: str | None, values: tuple[int, int], expected: tuple[str, bool] | None
) -> None:
    assert condition(text, span, *values) == expected


def test_a_line_that_cannot_be_read_has_no_condition() -> None:
    assert one_sided(Branch(1, 0, 2, 3, 1, 0), "m.py", lambda _, line: "if a:" if line == 1 else None) is None
