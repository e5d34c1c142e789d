"""FL301: what on the line has the size that a dynamic one was fixed to."""

from __future__ import annotations

from typing import Any

import pytest

from fuselight.shared.report import (
    Compile,
    Fact,
    FactKind,
    FileFacts,
    Frame,
    Outcome,
    Symbol,
    TracedFacts,
    TracedValue,
)
from fuselight_server.explain.findings import findings
from tests.support.recompilations import DEF, again, failed
from tests.support.reports import FILE, at, report

SHAPES = {
    "x": "f32[6, 3]",
    "self.bias": "f32[6, 3]",
    "y": "f32[1, 6]",
    "h": "f32[6, 3]",
    "self.row": "f32[3]",
}


def advice_on(statement: str, *, marked: bool = True, **parts: Any) -> str:
    """The first hint for `x.size(0)`, which the statement fixed to 6."""
    line = f"        {statement}\n"
    lines = {DEF.line: "    def forward(self, x, y):\n", DEF.line + 1: line}
    facts = tuple(
        Fact(DEF.line + 1, start, DEF.line + 1, start + len(name), ((index, 1),))
        for index, name in enumerate(SHAPES)
        if (start := line.find(name)) >= 0
    )
    values = tuple(TracedValue(FactKind.TENSOR, text) for text in SHAPES.values())
    fixing = at(DEF.line + 1, (8, len(line) - 1), function="forward")
    symbol = Symbol("s0", "x.size(0)", specialized_to="6", marked=marked, stack=(fixing,))
    given = report(
        frames=(Frame("Net.forward", DEF, parameters=("self", "x", "y")),),
        compiles=(Compile("0/0", 0, Outcome.FAILED, symbols=(symbol,)),),
        facts=TracedFacts(values=values, files={FILE: FileFacts(facts=facts)}),
        **parts,
    )
    given_findings = findings(given, read_line=lambda _path, number: lines.get(number))
    return next(finding for finding in given_findings if finding.code == "FL301").hints[0]


@pytest.mark.parametrize(
    ("statement", "advised"),
    [
        (
            "return x + self.bias",
            "`self.bias` has size 6 there: slice it to `x.size(0)` if no input is larger",
        ),
        ("return torch.cat([x, self.bias], dim=1)", "`self.bias` has size 6 there"),
        ("return x * y", "`y` has size 6 there: mark its size dynamic as well"),
        ("return x.view(6, -1)", "Write `x.size(0)` in the place of the number 6"),
        ("return x.view(6, 6)", "Avoid what needs the exact value"),  # either of two
        (
            "return x if len(x) == 6 else -x",
            "Avoid what needs the exact value",
        ),  # a comparison of it with itself
        ("return x + h", "Avoid what needs the exact value"),  # computed: its size comes from elsewhere
        ("return x * self.row", "Avoid what needs the exact value"),  # another size
        ("return self.bias + x * y", "Avoid what needs the exact value"),  # two that may be it
    ],
)
def test_what_forces_the_size_is_named_where_it_is_certain(statement: str, advised: str) -> None:
    assert advice_on(statement).startswith(advised)


def test_a_size_that_has_to_equal_that_of_an_argument_waits_for_it_to_vary() -> None:
    line = "        return x * y\n"
    lines = {DEF.line: "    def forward(self, x, y):\n", DEF.line + 1: line}
    facts = tuple(
        Fact(DEF.line + 1, line.index(name), DEF.line + 1, line.index(name) + 1, ((index, 1),))
        for index, name in ((0, "x"), (2, "y"))
    )
    values = tuple(TracedValue(FactKind.TENSOR, text) for text in SHAPES.values())
    fixing = at(DEF.line + 1, (8, len(line) - 1), function="forward")
    symbol = Symbol("s0", "x.size(0)", specialized_to="6", stack=(fixing,))

    def hints(*more: Any) -> tuple[str, ...]:
        given = report(
            frames=(Frame("Net.forward", DEF, parameters=("self", "x", "y")),),
            compiles=tuple(
                Compile(f"0/{n}", 0, Outcome.COMPILED, symbols=(symbol,) if n else ()) for n in range(2)
            ),
            facts=TracedFacts(values=values, files={FILE: FileFacts(facts=facts)}),
            recompiles=(again(failed("x.size(0) was 4, now 6")), *more),
        )
        (finding,) = findings(given, read_line=lambda _path, number: lines.get(number))
        return finding.hints

    assert hints()[0] == (
        f"Expect one more compile when `y` has another size, too: on line {DEF.line + 1} `x.size(0)` has to equal its "
        "size 6, which torch keeps fixed until it has seen another one"
    )
    varied = again(failed("x.size(0) was 6, now 8; y.size(1) was 6, now 8"), compile_id="0/2")
    assert not any("Expect one more compile" in hint for hint in hints(varied))


def test_what_nobody_marked_is_not_to_be_marked() -> None:
    assert "mark" in advice_on("return x * y")
    assert "mark" not in advice_on("return x * y", marked=False)


def test_a_tensor_that_has_another_size_in_each_object_is_not_to_be_sliced() -> None:
    other = again(failed("self.bias.size(0) was 8, now 6", source="self.bias"))
    assert advice_on("return x + self.bias", marked=False, recompiles=(other,)) == (
        "Expect one compile for each value of `x.size(0)`: this line needs the number itself, or that it equals "
        "one that is fixed"
    )
