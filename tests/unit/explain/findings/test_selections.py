"""Selections whose shape depends on data: their titles, and a count in the graph where the code only counts."""

from __future__ import annotations

import pytest

from fuselight.shared.report import Location
from fuselight_server.explain.findings import findings
from tests.support.reports import FILE, broken, report

OPERATOR = "Operator `aten.{}.default`'s output shape depends on input Tensor data."


def words(body: str, mark: str, operator: str) -> tuple[str, str]:
    """Title and first step of a break at the first occurrence of a text in the body of a function."""
    lines = ["def run(x, m):", *(f"    {line}" for line in body.splitlines())]
    number = next(number for number, line in enumerate(lines, 1) if mark in line)
    column = lines[number - 1].index(mark)
    at = Location(FILE, number, column, number, column + len(mark), function="run")
    graph_break = broken(at, gb="GB0036", explanation=OPERATOR.format(operator), hints=())
    read = dict(enumerate(lines, 1))
    (finding,) = findings(report(breaks=(graph_break,)), read_line=lambda _path, at: read.get(at))
    return finding.title, finding.hints[0]


COUNTS = {
    "rows": (
        "n = (x > 0).nonzero().size(0)\nreturn x / n",
        "(x > 0).nonzero()",
        "nonzero",
        "count_nonzero(x > 0)`",
    ),
    "a length": ("return x / len(torch.argwhere(m))", "torch.argwhere(m)", "nonzero", "count_nonzero(m)`"),
    "a mask": ("return x / x[m].shape[0]", "x[m]", "nonzero", "count_nonzero(m)`"),
    "elements": (
        "return x / x.masked_select(m).numel()",
        "x.masked_select(m)",
        "masked_select",
        "count_nonzero(m)` is the number, as a tensor, if `m` has the shape of `x`",
    ),
    "elements of rows": ("return x / x[m].numel()", "x[m]", "nonzero", "if `m` has the shape of `x`"),
    "a mean": ("y = x[m]\nreturn y.sum() / len(y)", "x[m]", "nonzero", "`torch.where(m, x, 0).sum()`"),
    "distinct": (
        "return x / (x * 2).unique().numel()",
        "(x * 2).unique()",
        "_unique2",
        "s = (x * 2).flatten().sort()",
    ),
    "neighbors": (
        "return x / torch.unique_consecutive(x).size(0)",
        "torch.unique_consecutive(x)",
        "unique_consecutive",
        "s = x.flatten()`",
    ),
}


@pytest.mark.parametrize("case", COUNTS)
def test_a_selection_that_is_only_counted_is_counted_in_the_graph(case: str) -> None:
    body, mark, operator, step = COUNTS[case]
    assert step in words(body, mark, operator)[1]


OTHERS = {
    "a loop": ("for _ in range(len(x.nonzero())):\n    x = x + 1\nreturn x", "x.nonzero()", "nonzero"),
    "a branch": ("if x[m].shape[0] > 2:\n    return x\nreturn -x", "x[m]", "nonzero"),
    "a size": ("return torch.zeros(x.unique().numel())", "x.unique()", "_unique2"),
    "columns": ("return x / x.nonzero().size(1)", "x.nonzero()", "nonzero"),
    "all of the positions": ("return x / x.nonzero().numel()", "x.nonzero()", "nonzero"),
    "the values, too": ("y = x[m]\nreturn y.max() / len(y)", "x[m]", "nonzero"),
    "a name of two values": ("y = x[m]\ny = y * 2\nreturn len(y) * x", "x[m]", "nonzero"),
    "text that does not parse": ("return (x / len(x.nonzero())", "x.nonzero()", "nonzero"),
}


@pytest.mark.parametrize("case", OTHERS)
def test_a_selection_that_is_used_otherwise_is_not_counted(case: str) -> None:
    assert "Count in the graph" not in words(*OTHERS[case])[1]
    assert "count in the graph" not in words(*OTHERS[case])[1]


def test_the_title_has_the_code_and_no_operator_that_is_not_in_it() -> None:
    assert words("return x[m] * 2", "x[m]", "nonzero")[0].endswith(
        "the shape of `x[m]` depends on the tensor's data"
    )
    assert words("return x[m] * 2", "x[m]", "nonzero")[1].startswith("Keep the shape fixed: use a mask")
    assert "`unique`" in words("return x.unique()", "x.unique()", "_unique2")[0]
    assert "`nonzero`" in words("return x.nonzero()", "x.nonzero()", "nonzero")[0]
    long = f"x[{'m & ' * 20}m]"
    assert "`nonzero`" in words(f"return {long}", long, "nonzero")[0]
