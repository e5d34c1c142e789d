"""Placing, folding and advice of recompilations and of the recompile limit."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fuselight.report import (
    Compile,
    Environment,
    Frame,
    GuardFailure,
    Location,
    Mismatch,
    NotCompiled,
    NotCompiledKind,
    Outcome,
    Recompile,
    Symbol,
)
from fuselight_server.finding import Finding, Severity
from fuselight_server.findings import findings
from fuselight_server.findings.causes import Cause, advice, cause_of
from fuselight_server.findings.text import rounded
from tests.support.golden import expect
from tests.support.reports import FILE, LIBRARY, at, broken, report

DEF = at(20, function="forward")
READ = at(22, (8, 14), function="forward")


def failed(difference: str, kind: str = "TENSOR_MATCH", source: str = "x", **changes: Any) -> GuardFailure:
    was, _, now = difference.partition(" was ")[2].partition(", now ")
    base = GuardFailure(
        kind=kind,
        source=source,
        code="",
        difference=difference,
        was=was or None,
        now=now or None,
        born=(READ,),
    )
    return dataclasses.replace(base, **changes)


def again(*failures: GuardFailure, compile_id: str | None = "0/1", **changes: Any) -> Recompile:
    base = Recompile(
        function="Net.forward",
        location=DEF,
        entries=(Mismatch("0/0", failures),),
        compile_id=compile_id,
        call=0,
    )
    return dataclasses.replace(base, **changes)


SIZE = failed("x.size(0) was 4, now 7")


def test_it_stands_on_the_read_that_made_the_guard() -> None:
    (one,) = findings(report(recompiles=(again(SIZE),)))
    assert (one.code, one.span.line, one.span.column) == ("FL201", 22, 8)
    assert one.title == "recompiled: x.size(0) was 4, now 7"
    assert one.fixes == ("mark_dynamic",)
    assert one.data == (("parameter", "x"), ("dimension", "0"))


def test_a_guard_that_no_line_made_puts_it_on_the_def() -> None:
    grad = failed("grad mode was on, now off", kind="GLOBAL_STATE", source="", born=())
    (one,) = findings(report(recompiles=(again(grad),)))
    assert one.span.line == 20


def test_a_read_in_a_library_shows_on_the_users_line_outside_it() -> None:
    deep = failed("x.size(0) was 4, now 7", born=(READ, at(9, path=LIBRARY)))
    (one,) = findings(report(recompiles=(again(deep),)))
    assert (one.span.path, one.span.line) == (FILE, 22)


def test_a_library_frame_shows_on_the_call_that_led_to_it() -> None:
    inside = again(
        failed("x.size(0) was 4, now 7", born=()),
        location=at(9, path=LIBRARY),
        caller=(at(40, function="main"),),
    )
    (one,) = findings(report(recompiles=(inside,)))
    assert one.span.line == 40


def test_the_same_value_changing_again_is_one_finding_with_the_later_changes_listed() -> None:
    (one,) = findings(
        report(recompiles=(again(SIZE), again(failed("x.size(0) was 4, now 9"), compile_id="0/2")))
    )
    assert one.count == 2
    assert "It changed again:\n- x.size(0) was 4, now 9" in one.message


def test_the_calls_of_a_loop_stand_on_one_line_and_are_one_place() -> None:
    loop = at(40, (8, 20), function="main")
    compiles = (Compile("0/0", 0, Outcome.COMPILED, caller=(loop,)),)

    def told(*caller: Location) -> list[tuple[int, str]]:
        (one,) = findings(report(compiles=compiles, recompiles=(again(SIZE, caller=caller),)))
        return [(item.span.line, item.message) for item in one.related if item.span.line > 30]

    assert told(loop) == [(40, "this call brought the new value; the earlier compile [0/0] was for it too")]
    assert told(at(41)) == [
        (41, "this call brought the new value"),
        (40, "the earlier compile [0/0] was for this call"),
    ]


def test_two_values_read_on_one_line_are_two_findings() -> None:
    other = failed("self.scale was 2, now 3", kind="EQUALS_MATCH", source="self.scale")
    assert len(findings(report(recompiles=(again(SIZE), again(other, compile_id="0/2"))))) == 2


def test_all_failing_guards_of_the_nearest_entry_are_shown() -> None:
    other = failed("FLAG was 1, now 2", kind="EQUALS_MATCH", source="FLAG")
    (one,) = findings(report(recompiles=(again(SIZE, other),)))
    assert "These guards failed too:\n- FLAG was 1, now 2" in one.message


def test_a_number_that_a_break_carries_over_is_named_by_its_line() -> None:
    carried = failed("___stack0 was 0.5, now 0.7", kind="EQUALS_MATCH", source="___stack0", born=())
    frames = (Frame("Net.forward", DEF, resumes_at=25),)
    compiles = (Compile("1/1", 0, Outcome.COMPILED),)
    (one,) = findings(
        report(frames=frames, compiles=compiles, recompiles=(again(carried, compile_id="1/1"),))
    )
    assert one.title == "recompiled: a value carried over the graph break on line 25 was 0.5, now 0.7"
    assert one.span.line == 25
    assert "tensor" in one.hints[0]


def test_a_setting_of_torch_comes_before_its_consequences() -> None:
    setting = failed("grad mode was on, now off", kind="GLOBAL_STATE", source="", born=())
    (one,) = findings(report(recompiles=(again(SIZE, setting),)))
    assert (one.title, one.span.line) == ("recompiled: grad mode was on, now off", 20)


def test_a_size_of_one_is_no_case_for_a_mark() -> None:
    (one,) = findings(report(recompiles=(again(failed("x.size(0) was 4, now 1")),)))
    assert one.fixes == ()
    assert "mark_dynamic" not in one.message


def test_torchs_words_stand_in_where_no_guard_is_known() -> None:
    (one,) = findings(report(recompiles=(again(entries=(), reasons=("0/0: backend changed",)),)))
    assert one.title == "recompiled: 0/0: backend changed"
    assert "one backend" in one.hints[0]


def test_the_recompilation_that_the_limit_stopped_is_part_of_the_limits_finding() -> None:
    limit = NotCompiled(
        kind=NotCompiledKind.RECOMPILE_LIMIT, function="Net.forward", location=DEF, reason="limit reached (8)"
    )
    (one,) = findings(report(recompiles=(again(SIZE, compile_id=None),), not_compiled=(limit,)))
    assert (one.code, one.span.line) == ("FL102", 20)
    assert "The call that went over it: x.size(0) was 4, now 7." in one.message
    assert "mark_dynamic(x, 0)" in one.hints[0]


@pytest.mark.parametrize(
    ("failure", "cause"),
    [
        (failed("x.size(0) was 4, now 7"), Cause.DIMENSION),
        (failed("x.dtype was float32, now float64"), Cause.DTYPE),
        (failed("x.device was cpu, now cuda:0"), Cause.DEVICE),
        (failed("x.requires_grad was False, now True"), Cause.REQUIRES_GRAD),
        (failed("x.stride(0) was 8, now 1"), Cause.STRIDE),
        (failed("x.ndim was 2, now 3"), Cause.RANK),
        (failed("self.training was True, now False", kind="TRUE_MATCH"), Cause.TRAINING),
        (failed("self.scale was 2, now 3", kind="EQUALS_MATCH"), Cause.NUMBER),
        (failed("mode was 'a', now 'b'", kind="EQUALS_MATCH"), Cause.VALUE),
        (failed("y was None, now a float32 tensor of shape [2, 4]", kind="NONE_MATCH"), Cause.NONE),
        (failed("the type of xs was list, now tuple", kind="TYPE_MATCH"), Cause.TYPE),
        (failed("len(xs) was 2, now 3", kind="LENGTH_CHECK"), Cause.LENGTH),
        (failed("the keys of cfg was ['a'], now ['b']", kind="DICT_KEYS"), Cause.KEYS),
        (failed("self.fn is another object", kind="FUNCTION_MATCH"), Cause.OBJECT),
        (failed("self.mode was Mode.A, now Mode.B", kind="ID_MATCH"), Cause.VALUE),
        (failed("grad mode was on, now off", kind="GLOBAL_STATE"), Cause.GLOBAL_STATE),
        (failed("a and b are the same tensor", kind="NO_TENSOR_ALIASING"), Cause.ALIASING),
        (failed("b.size(0) == a.size(0) no longer holds: 5, 4", kind="LAMBDA_GUARD"), Cause.RELATION),
        (failed("self.extra is missing", kind="HASATTR"), Cause.MISSING),
        (failed("the default dtype changed", kind="GLOBAL_STATE"), Cause.GLOBAL_STATE),
        (failed("x and y were the same object, now they are not", kind="LAMBDA_GUARD"), Cause.ALIASING),
        (failed("x.size(0) % 2 was 0, now 1", kind="LAMBDA_GUARD"), Cause.RELATION),
        (failed("the type of x was Tensor, now Parameter"), Cause.TYPE),
        (failed("x was a tensor, now 3"), Cause.TYPE),
        (failed("the dispatch keys of x differ: now AutocastCPU"), Cause.DISPATCH),
        (failed("x is an inference tensor now, which it was not"), Cause.DISPATCH),
        (failed("key 0 of parts was 'a', now 'b'", kind="EQUALS_MATCH"), Cause.KEYS),
        (failed("'b' was not in options, now it is", kind="DICT_CONTAINS"), Cause.KEYS),
        (failed("len(parts) was 1, now 2", kind="ROOT"), Cause.LENGTH),
        (failed("rest was empty, now (1,)", kind="LENGTH_CHECK"), Cause.LENGTH),
        (failed("something", kind="NEW_KIND"), Cause.OTHER),
    ],
)
def test_each_kind_of_change_is_told_apart_and_has_advice(failure: GuardFailure, cause: Cause) -> None:
    assert cause_of(failure) is cause
    assert all(advice(failure))


@pytest.mark.parametrize(
    ("source", "advised"),
    [
        ("n", "dynamic=True"),
        ("self.scale", "allow_unspec_int_on_nn_module"),
        ("closure variable 0 of step", "Pass it as an argument"),
    ],
)
def test_a_number_is_made_dynamic_only_where_torch_can(source: str, advised: str) -> None:
    failure = failed(f"{source} was 2, now 3", kind="EQUALS_MATCH", source=source)
    assert advised in " ".join(advice(failure))
    assert ("dynamic=True" in " ".join(advice(failure))) == (source == "n")


def test_how_a_wrapped_function_is_called_is_advised_on_and_not_a_list() -> None:
    number = failed(
        "the number of positional arguments was 2, now 1", kind="LENGTH_CHECK", source="positional arguments"
    )
    (said,) = advice(number)
    assert said.startswith("Call it in one way")
    assert advice(dataclasses.replace(number, source="blocks")) != (said,)


def test_wording() -> None:
    (one,) = findings(
        report(recompiles=(again(SIZE, failed("FLAG was 1, now 2", kind="EQUALS_MATCH", source="FLAG")),))
    )
    expect(
        f"{one.title}\n{one.message}\n"
        + "\n".join(f"{item.span.line}: {item.message}" for item in one.related),
        """\
        recompiled: x.size(0) was 4, now 7
        `Net.forward` was compiled again because a guard of its compiled code failed.

        These guards failed too:
        - FLAG was 1, now 2

        Cost: `Net.forward` was compiled once more.

        What to do:
        - Say before the first call that it varies: torch._dynamo.mark_dynamic(x, 0).
        - Or compile with torch.compile(..., dynamic=True), or pad to a few fixed sizes.
        - Pass `FLAG` as a tensor, whose value no guard checks.
        9: this call brought the new value, Net()(f32[4, 8])
        20: `Net.forward` is what was compiled again
        """,
    )


PART = Frame("Net.forward", DEF, resumes_at=25)
WHOLE = Frame("Net.forward", DEF)
BREAK = at(25, (8, 20), function="forward")


SYMBOLS = tuple(Symbol(f"s{number}", f"{name}.size(0)") for number, name in enumerate(("x", "y", "w")))
"""Torch makes a size dynamic when it has varied."""


def in_parts(*recompiles: Recompile, **changes: Any) -> tuple[Finding, ...]:
    """The findings of a function (compiles 0/*) and of its part behind the break on line 25 (compiles 1/*)."""
    compiles = tuple(
        Compile(f"{frame}/{number}", frame, Outcome.COMPILED, symbols=SYMBOLS if number else ())
        for frame in (0, 1)
        for number in (0, 1, 2)
    )
    facts = report(frames=(WHOLE, PART), compiles=compiles, recompiles=recompiles, **changes)
    return findings(facts, read_line=lambda _path, line: "    y = x.max().item()" if line == 25 else None)


def test_a_part_behind_a_break_that_differs_alike_is_told_with_the_function() -> None:
    carried = failed("y.size(0) was 4, now 7", source="y", born=())
    (one,) = in_parts(again(SIZE), again(carried, compile_id="1/1"))
    assert one.title == "recompiled: x.size(0) was 4, now 7"
    assert one.cost == (
        "`Net.forward` was compiled once more",
        "so was the part of it after the graph break on line 25",
    )


def test_a_part_that_differs_in_something_else_too_stays_a_finding_about_that() -> None:
    number = failed("n was 3, now 4", kind="EQUALS_MATCH", source="n", born=(at(26),))
    carried = failed("y.size(0) was 4, now 7", source="y", born=(at(27),))
    first, second = in_parts(again(SIZE), again(carried, number, compile_id="1/1"))
    assert (first.span.line, second.span.line) == (22, 26)
    assert second.title == "recompiled: n was 3, now 4"
    assert "failed too:\n- y.size(0) was 4, now 7" in second.message
    assert len(second.hints) == 1, "what the first finding gives advice for needs none here"


def test_the_same_number_of_another_name_is_another_cause() -> None:
    one = failed("n was 0, now 1", kind="EQUALS_MATCH", source="n")
    other = failed("m was 0, now 1", kind="EQUALS_MATCH", source="m")
    assert len(in_parts(again(one), again(other, compile_id="1/1"))) == 2


def test_a_part_of_another_call_is_another_recompilation() -> None:
    carried = failed("y.size(0) was 4, now 7", source="y", born=())
    assert len(in_parts(again(SIZE), again(carried, compile_id="1/1", call=1))) == 2


def test_a_part_that_recompiles_alone_stands_on_its_break_with_advice_that_holds_there() -> None:
    carried = failed("y.size(0) was 4, now 7", source="y", born=())
    found = in_parts(again(carried, compile_id="1/1"), breaks=(broken(BREAK),))
    (one,) = (item for item in found if item.code == "FL201")
    assert (one.span.line, one.span.column) == (25, 8)
    assert one.message.startswith("The part of `Net.forward` after the graph break on line 25 was compiled")
    assert one.fixes == ()
    assert one.hints[0].startswith("Remove the graph break on line 25")


def test_a_value_carried_over_a_break_is_named_by_its_source_and_rounded() -> None:
    carried = failed("___stack0 was 1.8158537149429321, now 1.9478", kind="EQUALS_MATCH", source="___stack0")
    found = in_parts(again(carried, compile_id="1/1"), breaks=(broken(at(25, (8, 22))),))
    (named,) = (item for item in found if item.code == "FL201")
    assert named.title == "recompiled: the value of `x.max().item()` on line 25 was 1.81585, now 1.9478"
    assert named.hints[0].startswith("Keep the value of `x.max().item()` on line 25 a tensor")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("n was 0.10000000149, now 0.2", "n was 0.1, now 0.2"),
        ("n was 1.00000000001, now 2.5", "n was 1.0, now 2.5"),
        ("n was 1.00000001, now 1.00000002", "n was 1.00000001, now 1.00000002"),
        ("n was 1.25e-08, now 1.2345678e-08", "n was 1.25e-08, now 1.23457e-08"),
        ("torch was 2.13.0, now 1234567", "torch was 2.13.0, now 1234567"),
    ],
)
def test_floats_are_rounded_unless_that_hides_the_difference(text: str, shown: str) -> None:
    assert rounded(text) == shown


def test_an_argument_of_a_library_is_not_marked_by_the_librarys_name_for_it() -> None:
    size = failed("input_ids.size(1) was 64, now 80", source="input_ids", born=())
    inside = Location(LIBRARY, 647, function="forward")
    call = at(30, function="main")
    (one,) = findings(report(recompiles=(again(size, location=inside, caller=(call,)),)))
    assert one.span.line == call.line
    assert "mark_dynamic(x, 1) for the x that arrives as `input_ids`" in one.hints[0]
    assert (one.fixes, one.data) == ((), ())


def test_an_argument_that_a_wrapper_passes_on_is_not_marked_by_the_wrappers_name() -> None:
    (first, _) = advice(failed("args[0].size(1) was 64, now 80", source="args[0]"))
    assert first.endswith("torch._dynamo.mark_dynamic(x, 1) for the x that arrives as `args[0]`")


def test_a_size_that_a_break_carried_over_is_told_with_the_size_that_it_comes_from() -> None:
    carried = failed("___stack0.size(0) was 4, now 7", source="___stack0", born=())
    (one,) = (
        item
        for item in in_parts(again(SIZE), again(carried, compile_id="1/1"), breaks=(broken(at(25, (8, 22))),))
        if item.code == "FL201"
    )
    assert one.title == "recompiled: x.size(0) was 4, now 7"


def test_a_size_that_a_break_carried_over_is_no_number_of_the_users() -> None:
    carried = failed("___stack0.size(0) was 4, now 7", source="___stack0", born=())
    found = in_parts(again(carried, compile_id="1/1"), breaks=(broken(at(25, (8, 22))),))
    (one,) = (item for item in found if item.code == "FL201")
    assert one.title == "recompiled: size(0) of the value of `x.max().item()` on line 25 was 4, now 7"
    assert one.hints[0].startswith("Remove the graph break on line 25")


def test_an_argument_stays_an_input_without_the_break() -> None:
    part = dataclasses.replace(PART, parameters=("self", "x"))
    compiles = (Compile("0/0", 0, Outcome.COMPILED), Compile("0/1", 0, Outcome.COMPILED, symbols=SYMBOLS))
    (one,) = findings(report(frames=(part,), compiles=compiles, recompiles=(again(SIZE),)))
    assert one.hints == (
        (
            "Compile with torch.compile(..., dynamic=True), or mark the dimension of the input that it comes from with "
            "torch._dynamo.mark_dynamic"
        ),
    )


def test_a_carried_number_stands_on_what_made_it_not_on_where_it_is_taken_over() -> None:
    carried = failed("___stack0 was 3, now 4", kind="EQUALS_MATCH", source="___stack0", born=(at(29),))
    found = in_parts(again(carried, compile_id="1/1"), breaks=(broken(at(25, (8, 22))),))
    assert {one.span.line for one in found} == {25}


def again_with(
    *symbols: Symbol, difference: str = "x.size(0) was 4, now 7", **changes: Any
) -> tuple[Finding, ...]:
    """The findings of a function whose second compile made `symbols`."""
    compiles = (Compile("0/0", 0, Outcome.COMPILED), Compile("0/1", 0, Outcome.COMPILED, symbols=symbols))
    failure = failed(difference, source=difference.partition(" was ")[0].partition(".")[0])
    return findings(report(frames=(WHOLE,), compiles=compiles, recompiles=(again(failure),), **changes))


def test_a_size_that_code_fixes_is_not_to_be_marked() -> None:
    found = again_with(Symbol("s0", "x.size(0)", specialized_to="7", stack=(at(30),)))
    (one,) = (item for item in found if item.code == "FL201")
    assert one.hints[0].startswith("Change the code on line 30 that fixes this size (FL301)")
    assert (one.fixes, one.data, "mark_dynamic" in one.message) == ((), (), False)


def test_a_number_that_code_fixes_is_not_kept_symbolic_by_dynamic() -> None:
    fixed = Symbol("s0", "n", specialized_to="7", stack=(at(30),))
    (one,) = (item for item in again_with(fixed, difference="n was 4, now 7") if item.code == "FL201")
    assert one.hints[0].startswith("Change the code on line 30 that fixes this number (FL302)")


def test_a_size_of_which_torch_made_no_symbol_is_kept_fixed_by_the_program() -> None:
    (one,) = again_with()
    assert one.hints[0].startswith("Take away what keeps this size fixed, dynamic=False")
    assert one.fixes == ()
    config = Environment(config={"automatic_dynamic_shapes": "False"})
    (one,) = again_with(environment=config)
    assert "automatic_dynamic_shapes back to True" in one.hints[0]


def test_a_size_of_one_is_torchs_own_rule_and_told_once() -> None:
    rule = Symbol("1", "x.size(0)", specialized_to="1", marked=True)
    relation = failed(
        "2 <= x.size(0) no longer holds: x.size(0) is 1", kind="LAMBDA_GUARD", source="", now="1"
    )
    compiles = (Compile("0/0", 0, Outcome.COMPILED), Compile("0/1", 0, Outcome.COMPILED, symbols=(rule,)))
    (one,) = findings(report(frames=(WHOLE,), compiles=compiles, recompiles=(again(relation),)))
    assert (one.code, one.severity) == ("FL201", Severity.INFORMATION)
    assert "mark" not in one.message
    (alone,) = findings(report(frames=(WHOLE,), compiles=compiles[1:]))
    assert (alone.code, alone.severity) == ("FL301", Severity.INFORMATION)


def test_one_line_that_fixes_a_size_again_and_again_is_one_finding_with_all_sizes() -> None:
    compiles = tuple(
        Compile(
            f"0/{number}",
            0,
            Outcome.COMPILED,
            symbols=(Symbol("s0", "x.size(0)", specialized_to=size, stack=(READ,)),),
        )
        for number, size in enumerate(("5", "6", "8"))
    )
    (one,) = findings(report(frames=(WHOLE,), compiles=compiles))
    assert (one.title, one.count) == ("`x.size(0)` is fixed to 5, 6 and 8", 3)


def test_a_fixed_size_of_a_carried_value_is_named_by_what_made_it() -> None:
    carried = Symbol("s0", "___stack0.size(0)", specialized_to="5")
    compiles = (Compile("0/0", 0, Outcome.COMPILED, symbols=(carried,)),)
    found = findings(report(frames=(PART,), compiles=compiles))
    assert [one.title for one in found] == [
        "size(0) of a value carried over the graph break on line 25 is fixed to 5"
    ]


def test_sizes_that_vary_together_are_marked_together() -> None:
    other = failed("y.size(0) was 4, now 7", source="y")
    (one,) = findings(report(recompiles=(again(SIZE, other),)))
    assert "they vary, all of them" in one.hints[0]
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


def test_a_size_that_cannot_be_named_beside_another_leaves_no_fix() -> None:
    (one,) = findings(report(recompiles=(again(SIZE, failed("xs[0].size(0) was 4, now 7", source="xs[0]")),)))
    assert one.fixes == ()
    assert "mark_dynamic(xs[0], 0)" in one.hints[0]


def test_a_number_of_the_module_is_not_made_symbolic_by_dynamic() -> None:
    count = failed("COUNT was 2, now 3", kind="EQUALS_MATCH", source="COUNT", code="G['COUNT'] == 2")
    (hint,) = advice(count)
    assert hint.startswith("Pass it as an argument")
