"""What to expect of a number that a graph break carries over and that torch keeps dynamic, or fixes all the same."""

from __future__ import annotations

import dataclasses

import pytest

from fuselight.shared.report import Compile, Graph, Guard, GuardCause, Outcome, Recompile, Symbol
from fuselight_server.base.finding import Finding
from fuselight_server.explain.findings import findings
from tests.support.recompilations import PART, again, failed
from tests.support.reports import at, broken, report

LINE = "        if x.norm().item() > self.most:"
NUMBER = "the value of `x.norm().item()` on line 25"
OF_TYPE = Guard("TYPE_MATCH", "___stack0", ("___check_type_id(L['___stack0'], 7)",))
EQUALS = Guard("EQUALS_MATCH", "___stack0", ("L['___stack0'] == 0.5",))
IS_DYNAMIC = f"Expect one extra compile: torch keeps {NUMBER} dynamic from the second value on"


def carried(was: float, now: float, name: str) -> Recompile:
    failure = failed(
        f"___stack0 was {was}, now {now}",
        "EQUALS_MATCH",
        "___stack0",
        born=(),
        code=f"L['___stack0'] == {was}",
    )
    return again(failure, compile_id=name)


def compared(name: str) -> Recompile:
    failure = failed(
        "___stack0 > self.most no longer holds: ___stack0 is 0.1, self.most is 0.2",
        "LAMBDA_GUARD",
        source="",
        cause=GuardCause.RELATION,
        code="L['___stack0'] > L['self'].most",
        born=(),
    )
    return again(failure, compile_id=name)


def finding_of(*recompiles: Recompile, guards: tuple[Guard, ...], is_input: bool = False) -> Finding:
    graph = Graph(2, inputs=("l_stack0_: f64[]",) if is_input else ())
    later = Compile(
        "0/1", 0, Outcome.COMPILED, graph=graph, guards=guards, symbols=(Symbol("zf0", "___stack0"),)
    )
    start = LINE.index("x.norm")
    given = report(
        frames=(dataclasses.replace(PART, carried=1),),
        compiles=(
            Compile("0/0", 0, Outcome.COMPILED, guards=(EQUALS,)), later, dataclasses.replace(later, id="0/2")
        ),
        breaks=(broken(at(25, (start, start + len("x.norm().item()"))), gb="GB0124"),),
        recompiles=recompiles,
    )  # fmt: skip
    lines = {24: "    def forward(self, x):", 25: LINE}
    shown = findings(given, read_line=lambda _path, line: lines.get(line, "") if line < 30 else None)
    (finding,) = (item for item in shown if item.code == "FL201")
    return finding


def test_a_number_of_which_torch_guards_on_the_type_alone_is_dynamic() -> None:
    finding = finding_of(carried(0.5, 0.7, "0/1"), guards=(OF_TYPE,))
    assert finding.hints == (IS_DYNAMIC,)
    assert f"torch then made {NUMBER} dynamic" in finding.message


def test_the_other_outcome_of_a_comparison_with_it_compiles_too() -> None:
    finding = finding_of(carried(0.5, 0.7, "0/1"), compared("0/2"), guards=(OF_TYPE,))
    assert finding.count == 2
    assert finding.hints == (f"{IS_DYNAMIC}, and compiles for another outcome of a comparison with it",)
    assert not any(remedy.is_step for remedy in finding.remedies)


@pytest.mark.parametrize("result", ["(2.0*L['___stack0']) == 1.4", "(L['___stack0'] + 1.0) == 1.7"])
def test_a_number_that_a_result_fixes_is_not_dynamic(result: str) -> None:
    guards = (OF_TYPE, Guard("SHAPE_ENV", "", (result,)))
    finding = finding_of(carried(0.5, 0.7, "0/1"), guards=guards, is_input=True)
    assert finding.hints != (IS_DYNAMIC,)
    assert "dynamic" not in finding.message
    free = finding_of(carried(0.5, 0.7, "0/1"), guards=(OF_TYPE,), is_input=True)
    assert free.hints == (IS_DYNAMIC,)


def test_a_part_that_makes_its_value_itself_is_said_to_go_with_the_break() -> None:
    finding = finding_of(carried(0.5, 0.7, "0/1"), guards=(OF_TYPE,))
    assert "The part exists only because of that graph break: fix the break first." in finding.message
