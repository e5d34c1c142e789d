"""The statement that decides whether a line runs, read from the source and from the lines that ran."""

from __future__ import annotations

import pytest

from fuselight.worker.results.branches import assigning_line, deciding_line, names_read

SOURCE = """\
def f(x, table):
    if table.flag:
        return x * 2
    for name, amount in table.items():
        if name == "a":
            x = x * amount
        elif name == "b":
            x = x + amount
    n = round(x.shape[0], -1)
    y = x / n
    return (
        y if n > 3
        else x
    )


def g(x):
    try:
        y = f(x)
    except ValueError:
        y = x
    while y.sum() > 3:
        y = y / 2
    return y
"""


def ran(*lines: int) -> dict[int, int]:
    """These lines, in this order."""
    return {line: when for when, line in enumerate(lines)}


@pytest.mark.parametrize(
    ("line", "executed", "decides"),
    [
        (3, ran(2, 4, 9, 10), 2),  # inside of a branch that eager mode did not take
        (10, ran(2, 3), 2),  # after a branch in which eager mode has returned
        (6, ran(2, 4, 5, 7, 8, 4), 4),  # the test reads only what the loop gives
        (21, ran(18, 19, 22, 23, 24), 18),
        (23, ran(18, 19, 22, 24), 22),
        (13, ran(2, 4, 9, 10, 11), None),  # eager mode did not run the first line of what decides
        (24, ran(), None),
    ],
)
def test_the_statement_that_decides(line: int, executed: dict[int, int], decides: int | None) -> None:
    assert deciding_line(SOURCE, line, executed) == decides


def test_a_variable_is_followed_to_the_line_that_gave_it_its_value() -> None:
    executed = ran(2, 4, 5, 6, 9, 10)
    assert names_read(SOURCE, 10) == ("x", "n")
    assert assigning_line(SOURCE, 10, "n", executed) == 9
    assert assigning_line(SOURCE, 10, "x", executed) == 6
    assert assigning_line(SOURCE, 10, "absent", executed) is None


def test_what_python_cannot_read_decides_nothing() -> None:
    assert deciding_line("def f(:", 1, {1: 0}) is None
    assert assigning_line("def f(:", 1, "x", {1: 0}) is None
    assert names_read("def f(:", 1) == ()
    assert assigning_line("x = 1", 1, "x", {1: 0}) is None
