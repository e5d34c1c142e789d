"""An array of NumPy that is indexed with a number that varies: one finding, that names NumPy."""

from __future__ import annotations

import pytest

from fuselight.shared.report import Break, Location
from fuselight_server.base.finding import Finding
from fuselight_server.explain.findings import findings
from tests.support.reports import FILE, at, broken, report

SELECTED = (
    "TypeError <Wrapped operator <original wrapped_select>>: select(): argument 'input' (position 1) must be Tensor, "
    "not ndarray"
)
BODY = ("def rate(x, step):", "    i = step + 1", "    return x * float(RATES[step]) + float(RATES[i])")
TITLE = "graph break: a NumPy array is indexed with a number that varies"


def _place(text: str, function: str = "rate") -> Location:
    column = BODY[2].index(text)
    return at(3, (column, column + len(text)), path=FILE, function=function)


def _broken(*stack: Location, gb: str = "GB0112", context: str = SELECTED) -> Break:
    return broken(*stack, gb=gb, explanation="", context=context, hints=())


def _findings(*breaks: Break) -> list[Finding]:
    lines = dict(enumerate(BODY, 1))
    return list(findings(report(breaks=breaks), read_line=lambda _path, number: lines.get(number)))


NUMBER = _broken(_place("float(RATES[step])"), gb="GB0033", context="aten._local_scalar_dense")


@pytest.mark.parametrize("is_number_first", [True, False])
def test_the_index_of_an_array_and_its_number_are_one_finding(*, is_number_first: bool) -> None:
    index = _broken(_place("RATES[step]"))
    (finding,) = _findings(*((NUMBER, index) if is_number_first else (index, NUMBER)))
    assert (finding.code, finding.gb_ids, finding.title) == ("GB0033", ("GB0112",), TITLE)
    assert "While the index is constant" in finding.message
    assert [hint.partition(" outside")[0] for hint in finding.hints[:1]] == ["Compute `RATES[step]`"]
    assert not any("from_numpy" in hint for hint in finding.hints), (
        "float() of a tensor breaks the graph as well"
    )


def test_the_numbers_of_two_expressions_are_two_findings() -> None:
    codes = [finding.code for finding in _findings(NUMBER, _broken(_place("RATES[i]")))]
    assert sorted(codes) == ["GB0033", "GB0112"]


@pytest.mark.parametrize(
    ("text", "is_inlined", "first"),
    [
        ("RATES[step]", False, "Compute `RATES[step]` outside the compiled code, and pass it in"),
        ("RATES[i]", False, "Make a tensor of `RATES` outside the compiled code, torch.from_numpy(RATES)"),
        ("RATES[step]", True, "Make a tensor of `RATES` outside the compiled code, torch.from_numpy(RATES)"),
    ],
)
def test_an_element_is_passed_in_only_where_the_callers_have_its_index(
    text: str, first: str, *, is_inlined: bool
) -> None:
    outer = (at(9, function="loss"),) if is_inlined else ()
    (finding,) = _findings(_broken(*outer, _place(text)))
    assert (finding.title, finding.hints[0].startswith(first)) == (TITLE, True)


def test_another_call_that_does_not_fit_keeps_its_words() -> None:
    (finding,) = _findings(_broken(_place("RATES[step]"), context="select(): dim must be int, not str"))
    assert "does not match the operator's signature" in finding.title
