"""A branch that raises an exception which the user's code catches: no assert of the graph, which ends the program."""

from __future__ import annotations

import textwrap

import pytest

from fuselight_server.explain.findings import findings
from fuselight_server.fixes.rewrites.families import rewrites
from tests.support.reports import FILE, at, broken, report

SOURCE = """
import contextlib
import torch

class Diverged(ArithmeticError):
    pass

def check(x):
    if x.isnan().any():
        raise {raised}("nan")
    return x

def step(x):
    {before}
        return check(x)
    {after}
        {end}

def main(x):
    try:
        return step(x)
    except Exception:
        raise
"""


def hints_and_rewrites(
    raised: str, before: str, after: str, end: str
) -> tuple[tuple[str, ...], list[str], list[str]]:
    """The advice, the titles of the rewrites, and why those refused are; the break is in `check`."""
    text = SOURCE.format(raised=raised, before=before, after=after, end=end).lstrip()
    lines = text.splitlines(keepends=True)

    def place(condition: str, function: str) -> tuple[int, str]:
        return next(number for number, line in enumerate(lines, 1) if condition in line), function

    (line, _), (call, _), (run, _) = (
        place("x.isnan().any()", "check"), place("return check(x)", "step"), place("return step(x)", "main")
    )  # fmt: skip
    column = lines[line - 1].index("x.isnan")
    broke = at(line, (column, column + len("x.isnan().any()")), function="check")
    record = report(breaks=(broken(at(call, function="step"), broke, above=(at(run, function="main"),)),))
    (finding,) = findings(
        record,
        read_line=lambda path, number: lines[number - 1] if path == FILE and number <= len(lines) else None,
    )
    candidates = rewrites(finding, record, lambda path: text if path == FILE else None)
    return (
        finding.hints,
        [item.kind for item in candidates.remedies],
        [item.reason for item in candidates.refused],
    )


TRY, PASS = "try:", "return None"


@pytest.mark.parametrize(
    ("raised", "before", "after", "end", "handler"),
    [
        ("Diverged", TRY, "except Diverged:", PASS, "`except Diverged` on line 15"),
        ("Diverged", TRY, "except (KeyError, ArithmeticError):", PASS, "on line 15"),
        ("FloatingPointError", TRY, "except ArithmeticError:", PASS, "on line 15"),
        ("ValueError", TRY, "except:", PASS, "`except` on line 15"),
        ("ValueError", "with contextlib.suppress(ValueError):", "if x is None:", PASS, "on line 13"),
        # The handler makes another exception of it, and nothing else catches that.
        ("Diverged", TRY, "except Diverged as error:", "raise KeyError(1) from error", ""),
        ("Diverged", TRY, "except KeyError:", PASS, ""),
        ("Diverged", TRY, "except Diverged:", "raise", ""),
        ("ValueError", "with contextlib.suppress(KeyError):", "if x is None:", PASS, ""),
    ],
)
def test_an_assert_of_the_graph_is_advised_only_if_nothing_catches_the_exception(
    raised: str, before: str, after: str, end: str, handler: str
) -> None:
    hints, kinds, reasons = hints_and_rewrites(raised, before, after, end)
    words = " ".join(hints)
    assert ("_assert_async" in words, "decide outside the compiled code" in words) == (
        not handler,
        bool(handler),
    )
    assert handler in words
    assert [f"{handler} catches the exception" in reason for reason in reasons] == [True] * bool(handler)
    assert ("assert_async" in kinds) == (not handler)


def test_a_handler_at_the_top_of_the_program_counts() -> None:
    text = textwrap.dedent(
        """
        def check(x):
            assert x.min() > 0, "negative"

        try:
            check(x)
        except AssertionError:
            print("skipped")
        """
    ).lstrip()
    lines = text.splitlines(keepends=True)
    record = report(breaks=(broken(at(2, (11, 22), function="check"), above=(at(5, function="<module>"),)),))
    (finding,) = findings(
        record, read_line=lambda _path, number: lines[number - 1] if number <= len(lines) else None
    )
    assert "`except AssertionError` on line 6 catches the exception" in finding.hints[0]
    assert not any("_assert_async" in hint for hint in finding.hints)
