"""FL301: what on the line has the size that a dynamic one was fixed to."""

from __future__ import annotations

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
from tests.support.recompilations import DEF
from tests.support.reports import FILE, at, report

SHAPES = {
    "x": "f32[6, 3]",
    "self.bias": "f32[6, 3]",
    "y": "f32[1, 6]",
    "h": "f32[6, 3]",
    "self.row": "f32[3]",
}


def advice_on(statement: str) -> str:
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
    symbol = Symbol("s0", "x.size(0)", specialized_to="6", marked=True, stack=(fixing,))
    given = report(
        frames=(Frame("Net.forward", DEF, parameters=("self", "x", "y")),),
        compiles=(Compile("0/0", 0, Outcome.FAILED, symbols=(symbol,)),),
        facts=TracedFacts(values=values, files={FILE: FileFacts(facts=facts)}),
    )
    (finding,) = findings(given, read_line=lambda _path, number: lines.get(number))
    return finding.hints[0]


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
        ("return x + h", "Avoid code that needs the exact value"),  # computed: its size comes from elsewhere
        ("return x * self.row", "Avoid code that needs the exact value"),  # another size
        ("return self.bias + x * y", "Avoid code that needs the exact value"),  # two that may be it
    ],
)
def test_what_forces_the_size_is_named_where_it_is_certain(statement: str, advised: str) -> None:
    assert advice_on(statement).startswith(advised)
