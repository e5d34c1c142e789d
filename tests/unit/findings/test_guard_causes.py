"""Advice against a recompilation by its cause, and the sizes that a quick fix may mark."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fuselight.report import Compile, Environment, GuardCause, Location, Outcome, Symbol
from fuselight_server.finding import Finding, Severity
from fuselight_server.findings import findings
from fuselight_server.findings.guard_causes import advice
from tests.support.recompilations import SIZE, WHOLE, again, failed
from tests.support.reports import LIBRARY, at, report


def test_a_size_of_one_is_not_marked() -> None:
    (one,) = findings(report(recompiles=(again(failed("x.size(0) was 4, now 1")),)))
    assert one.fixes == ()
    assert "mark_dynamic" not in one.message


@pytest.mark.parametrize("cause", GuardCause)
def test_each_cause_has_advice(cause: GuardCause) -> None:
    assert all(advice(failed("something changed", cause=cause)))


@pytest.mark.parametrize(
    ("source", "advised"),
    [
        ("n", "dynamic=True"),
        ("self.scale", "allow_unspec_int_on_nn_module"),
        ("closure variable 0 of step", "Pass it as an argument"),
    ],
)
def test_a_number_is_made_dynamic_only_where_torch_can(source: str, advised: str) -> None:
    code = "L['step'].__closure__[0].cell_contents == 2" if source.startswith("closure") else ""
    failure = failed(f"{source} was 2, now 3", kind="EQUALS_MATCH", source=source, code=code)
    assert advised in " ".join(advice(failure))
    assert ("dynamic=True" in " ".join(advice(failure))) == (source == "n")


def test_the_advice_is_about_the_wrapped_call_and_not_a_list() -> None:
    number = failed("the number of positional arguments was 2, now 1", cause=GuardCause.ARGUMENTS)
    (said,) = advice(number)
    assert said.startswith("Always pass the same arguments")
    assert advice(dataclasses.replace(number, cause=GuardCause.LENGTH)) != (said,)


def test_an_argument_of_a_library_is_not_marked_by_the_librarys_name_for_it() -> None:
    size = failed("input_ids.size(1) was 64, now 80", source="input_ids", born=())
    inside = Location(LIBRARY, 647, function="forward")
    call = at(30, function="main")
    (one,) = findings(report(recompiles=(again(size, location=inside, caller=(call,)),)))
    assert one.span.line == call.line
    assert "mark_dynamic(x, 1) for the x that is passed as `input_ids`" in one.hints[0]
    assert (one.fixes, one.data) == ((), ())


def test_an_argument_that_a_wrapper_passes_on_is_not_marked_by_the_wrappers_name() -> None:
    (first, _) = advice(failed("args[0].size(1) was 64, now 80", source="args[0]"))
    assert first.endswith("torch._dynamo.mark_dynamic(x, 1) for the x that is passed as `args[0]`")


def again_with(
    *symbols: Symbol, difference: str = "x.size(0) was 4, now 7", **changes: Any
) -> tuple[Finding, ...]:
    """The findings of a function whose second compile made `symbols`."""
    compiles = (Compile("0/0", 0, Outcome.COMPILED), Compile("0/1", 0, Outcome.COMPILED, symbols=symbols))
    failure = failed(difference, source=difference.partition(" was ")[0].partition(".")[0])
    return findings(report(frames=(WHOLE,), compiles=compiles, recompiles=(again(failure),), **changes))


def test_a_size_that_code_fixes_must_not_be_marked() -> None:
    found = again_with(Symbol("s0", "x.size(0)", specialized_to="7", stack=(at(30),)))
    (one,) = (item for item in found if item.code == "FL201")
    assert one.hints[0].startswith("Change the code on line 30 that fixes this size (FL301)")
    assert (one.fixes, one.data, "mark_dynamic" in one.message) == ((), (), False)


def test_a_number_that_code_fixes_is_not_kept_symbolic_by_dynamic() -> None:
    fixed = Symbol("s0", "n", specialized_to="7", stack=(at(30),))
    (one,) = (item for item in again_with(fixed, difference="n was 4, now 7") if item.code == "FL201")
    assert one.hints[0].startswith("Change the code on line 30 that fixes this number (FL302)")


def test_a_size_without_a_symbol_is_fixed_by_the_program() -> None:
    (one,) = again_with()
    assert one.hints[0].startswith("Remove dynamic=False or mark_static")
    assert one.fixes == ()
    config = Environment(config={"automatic_dynamic_shapes": "False"})
    (one,) = again_with(environment=config)
    assert "automatic_dynamic_shapes back to True" in one.hints[0]


def test_a_size_of_one_is_torchs_own_rule_and_reported_once() -> None:
    rule = Symbol("1", "x.size(0)", specialized_to="1", marked=True)
    relation = failed(
        "2 <= x.size(0) no longer holds: x.size(0) is 1",
        source="",
        code="2 <= L['x'].size()[0]",
        now="1",
        cause=GuardCause.RELATION,
    )
    compiles = (Compile("0/0", 0, Outcome.COMPILED), Compile("0/1", 0, Outcome.COMPILED, symbols=(rule,)))
    (one,) = findings(report(frames=(WHOLE,), compiles=compiles, recompiles=(again(relation),)))
    assert (one.code, one.severity) == ("FL201", Severity.INFORMATION)
    assert "mark" not in one.message
    (alone,) = findings(report(frames=(WHOLE,), compiles=compiles[1:]))
    assert (alone.code, alone.severity) == ("FL301", Severity.INFORMATION)


def test_sizes_that_vary_together_are_marked_together() -> None:
    other = failed("y.size(0) was 4, now 7", source="y")
    (one,) = findings(report(recompiles=(again(SIZE, other),)))
    assert "Mark all these sizes as dynamic" in one.hints[0]
    assert one.hints[0].endswith("torch._dynamo.mark_dynamic(x, 0), torch._dynamo.mark_dynamic(y, 0)")
    assert one.fixes == ("mark_dynamic",)
    assert one.data == (("parameter", "x"), ("dimension", "0"), ("parameter", "y"), ("dimension", "0"))


def test_each_size_of_a_tensor_that_varied_is_marked_but_for_those_that_torch_fixes() -> None:
    (one,) = findings(
        report(
            recompiles=(
                again(failed("x.size(0) was 4, now 7; x.size(1) was 3, now 1; x.size(2) was 5, now 6")),
            )
        )
    )
    assert one.data == (("parameter", "x"), ("dimension", "0"), ("parameter", "x"), ("dimension", "2"))


def test_a_size_without_a_name_has_no_fix() -> None:
    (one,) = findings(report(recompiles=(again(SIZE, failed("xs[0].size(0) was 4, now 7", source="xs[0]")),)))
    assert one.fixes == ()
    assert "mark_dynamic(xs[0], 0)" in one.hints[0]


def test_a_number_of_the_module_is_not_made_symbolic_by_dynamic() -> None:
    count = failed("COUNT was 2, now 3", kind="EQUALS_MATCH", source="COUNT", code="G['COUNT'] == 2")
    (hint,) = advice(count)
    assert hint.startswith("Pass it as an argument")
