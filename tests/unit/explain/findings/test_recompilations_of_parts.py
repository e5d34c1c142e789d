"""Recompilations of the part of a function after a graph break, and of values carried over the break."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fuselight.shared.report import (
    Compile,
    Frame,
    Graph,
    GuardCause,
    Outcome,
    Recompile,
    Symbol,
)
from fuselight_server.base.finding import Finding
from fuselight_server.explain.findings import findings
from fuselight_server.explain.findings.common.resume_functions import nearest
from tests.support.recompilations import BREAK, DEF, PART, SIZE, SYMBOLS, WHOLE, again, failed, untried
from tests.support.reports import at, broken, report


def test_a_number_that_a_break_carries_over_is_named_by_its_line() -> None:
    carried = failed("___stack0 was 0.5, now 0.7", kind="EQUALS_MATCH", source="___stack0", born=())
    frames = (Frame("Net.forward", DEF, resumes_at=25),)
    compiles = (Compile("1/1", 0, Outcome.COMPILED),)
    (finding,) = findings(
        report(frames=frames, compiles=compiles, recompiles=(again(carried, compile_id="1/1"),))
    )
    assert finding.title == "recompiled: a value on line 25 was 0.5, now 0.7"
    assert finding.span.line == 25
    assert not removes(finding)


def removes(finding: Finding) -> bool:
    """Whether it says that something helps which no trial has shown."""
    return any("Remove the graph break" in hint for hint in finding.hints)


def in_parts(
    *recompiles: Recompile, part_symbols: tuple[Symbol, ...] | None = None, **changes: Any
) -> tuple[Finding, ...]:
    """The findings of a function (compiles 0/*) and of its part after the break on line 25 (compiles 1/*)."""
    compiles = tuple(
        Compile(f"{frame}/{number}", frame, Outcome.COMPILED, symbols=symbols if number else ())
        for frame, symbols in enumerate((SYMBOLS, SYMBOLS if part_symbols is None else part_symbols))
        for number in (0, 1, 2)
    )
    facts = report(frames=(WHOLE, PART), compiles=compiles, recompiles=recompiles, **changes)
    return findings(facts, read_line=lambda _path, line: "    y = x.max().item()" if line == 25 else None)


def test_a_part_after_a_break_with_the_same_difference_is_reported_with_the_function() -> None:
    carried = failed("y.size(0) was 4, now 7", source="y", born=())
    (finding,) = in_parts(again(SIZE), again(carried, compile_id="1/1"))
    assert finding.title == "recompiled: x.size(0) was 4, now 7"
    assert finding.cost == (
        "`Net.forward` was compiled once more",
        "its part after the graph break on line 25 was compiled again too",
        "2 recompilations in all",
    )


def test_a_part_is_not_said_to_be_a_part_of_itself() -> None:
    other = dataclasses.replace(PART, resumes_at=27)
    compiles = tuple(
        Compile(f"{frame}/{number}", frame, Outcome.COMPILED) for frame in range(3) for number in range(3)
    )
    sized = (again(SIZE, compile_id=name) for name in ("1/1", "1/2", "2/1"))
    (finding,) = findings(report(frames=(WHOLE, PART, other), compiles=compiles, recompiles=tuple(sized)))
    assert finding.cost == (
        "the part of `Net.forward` after the graph break on line 25 was compiled 2 more times",
        "the part after the graph break on line 27 was compiled again too",
        "3 recompilations in all",
    )
    assert (finding.count, finding.recompilations) == (2, 3)


def test_a_part_with_another_difference_keeps_its_own_finding() -> None:
    number = failed("n was 3, now 4", kind="EQUALS_MATCH", source="n", born=(at(26),))
    carried = failed("y.size(0) was 4, now 7", source="y", born=(at(27),))
    first, second = in_parts(again(SIZE), again(carried, number, compile_id="1/1"))
    assert (first.span.line, second.span.line) == (22, 26)
    assert second.title == "recompiled: n was 3, now 4"
    assert "Other failed guards:\n- y.size(0) was 4, now 7" in second.message
    assert not any("mark" in hint for hint in second.hints), "the first finding gives the advice for the size"


def test_the_same_number_of_another_name_is_another_cause() -> None:
    failure = failed("n was 0, now 1", kind="EQUALS_MATCH", source="n")
    other = failed("m was 0, now 1", kind="EQUALS_MATCH", source="m")
    assert len(in_parts(again(failure), again(other, compile_id="1/1"))) == 2


def test_a_part_of_another_call_is_another_recompilation() -> None:
    carried = failed("y.size(0) was 4, now 7", source="y", born=())
    assert len(in_parts(again(SIZE), again(carried, compile_id="1/1", call=1))) == 2


def test_a_part_that_recompiles_alone_is_on_its_break_with_advice_that_holds_there() -> None:
    carried = failed("y.size(0) was 4, now 7", source="y", born=())
    parts = in_parts(again(carried, compile_id="1/1"), breaks=(broken(BREAK),))
    (finding,) = (item for item in parts if item.code == "FL201")
    assert (finding.span.line, finding.span.column) == (25, 8)
    assert finding.message.startswith(
        "The part of `Net.forward` after the graph break on line 25 was compiled"
    )
    assert finding.fixes == ()
    assert not removes(finding)


def test_a_value_carried_over_a_break_is_named_by_its_source_and_rounded() -> None:
    carried = failed("___stack0 was 1.8158537149429321, now 1.9478", kind="EQUALS_MATCH", source="___stack0")
    parts = in_parts(again(carried, compile_id="1/1"), breaks=(broken(at(25, (8, 22)), gb="GB0124"),))
    (named,) = (item for item in parts if item.code == "FL201")
    assert named.title == "recompiled: the value of `x.max().item()` on line 25 was 1.81585, now 1.9478"
    assert not removes(named)


@pytest.mark.parametrize(
    ("gb", "number", "goes"), [("GB0124", 1, True), ("GB4347", 0, True), ("GB4347", 1, False)]
)
def test_a_number_that_no_graph_can_compute_is_guarded_without_the_break_too(
    gb: str, number: int, *, goes: bool
) -> None:
    """In `table[next(order)]`, what `next` returns is a Python number wherever it is called; `table` only waits."""
    name = f"___stack{number}"
    carried = failed(f"{name} was 3, now 4", "EQUALS_MATCH", name, born=(), code=f"L['{name}'] == 3")
    frames = (dataclasses.replace(PART, carried=2),)
    compiles = (Compile("0/0", 0, Outcome.COMPILED), Compile("0/1", 0, Outcome.COMPILED))
    facts = report(
        frames=frames, compiles=compiles, recompiles=(again(carried, compile_id="0/1"),),
        breaks=(broken(at(25, (14, 25)), gb=gb),),
    )  # fmt: skip
    text = "    y = table[next(order)]"
    (finding,) = (item for item in findings(facts, read_line=lambda *_: text) if item.code == "FL201")
    assert bool(finding.cures) is goes, "no change of a call meets what Python computes"
    assert not removes(finding)


KEPT = "Expect one extra compile: torch keeps {} dynamic from the second value on"
FIXED = "Expect one compile for each value: computed before the call"


@pytest.mark.parametrize(
    ("was", "now", "specialized", "is_input", "expected"),
    [
        ("3", "4", None, False, KEPT),
        ("3", "4", "4", False, "Expect one compile for each value, also where it is passed in: line 26 needs"),
        ("0.25", "0.5", None, True, KEPT),
        ("0.25", "0.5", None, False, "Expect what this run had: 2 compiles, {} differed in 1 of them"),
        ("True", "False", None, False, FIXED),
    ],
)  # fmt: skip
def test_a_value_of_python_needs_a_compile_for_each_value_only_where_a_line_fixes_it(
    was: str, now: str, specialized: str | None, *, is_input: bool, expected: str
) -> None:
    """As `delay = clock()`: the break goes with the call, and torch keeps what is only computed with symbolic."""
    cause = GuardCause.NUMBER if was[0].isdigit() else GuardCause.VALUE
    code = f"L['___stack0'] == {was}"
    carried = failed(
        f"___stack0 was {was}, now {now}", "EQUALS_MATCH", "___stack0", born=(), code=code, cause=cause
    )
    frames = (dataclasses.replace(PART, carried=1),)
    symbol = Symbol("s0", "___stack0", specialized_to=specialized, stack=(at(26),))
    graph = Graph(1, inputs=("l_stack0_: f64[]",) if is_input else ())
    compiles = (
        Compile("0/0", 0, Outcome.COMPILED),
        Compile("0/1", 0, Outcome.COMPILED, symbols=(symbol,) if was[0].isdigit() else (), graph=graph),
    )
    facts = report(
        frames=frames, compiles=compiles, recompiles=(again(carried, compile_id="0/1"),),
        breaks=(broken(at(25, (12, 20)), gb="GB4347"),),
    )  # fmt: skip
    text = "    delay = clock() * 2"
    (finding,) = (item for item in findings(facts, read_line=lambda *_: text) if item.code == "FL201")
    value = "the value of `clock()` on line 25"
    assert expected.format(value) in [hint[: len(expected.format(value))] for hint in finding.hints]
    assert not removes(finding)
    assert finding.cures == ()  # no change of a call removes what the break hands over


@pytest.mark.parametrize("target", ["y", "x", "a, x"])
@pytest.mark.parametrize(("number", "is_last"), [(0, False), (1, True)])
def test_the_last_carried_value_is_that_of_the_expression_and_those_before_wait_for_it(
    number: int, target: str, *, is_last: bool
) -> None:
    """In `x * y.item()`, torch carries over `x` and the number."""
    name = f"___stack{number}"
    carried = failed(f"{name} was 3, now 4", kind="EQUALS_MATCH", source=name, born=())
    frames = (dataclasses.replace(PART, carried=2),)
    compiles = (Compile("0/0", 0, Outcome.COMPILED), Compile("0/1", 0, Outcome.COMPILED))
    text = f"    {target} = x * z.max().item()"
    column = text.index("z.max")
    facts = report(
        frames=frames, compiles=compiles, recompiles=(again(carried, compile_id="0/1"),),
        breaks=(broken(at(25, (column, len(text)))),),
    )  # fmt: skip
    (finding,) = (item for item in findings(facts, read_line=lambda *_: text) if item.code == "FL201")
    named = "the value of `z.max().item()` on line 25"
    other = "x" if target == "y" else "the value of `x`"
    assert finding.title == f"recompiled: {named if is_last else other} was 3, now 4"


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("    ends = [int(n) for n in sizes]", "ends[0]"),
        ("    return [int(n) for n in sizes][0] * x", "the value of `[int(n) for n in sizes][0]` on line 25"),
    ],
)
def test_after_a_break_in_a_comprehension_its_result_is_carried_over(line: str, value: str) -> None:
    """Before Python 3.12, a comprehension is also compiled alone and breaks there: no part follows that break."""
    carried = failed("___stack0[0] was 3, now 4", kind="EQUALS_MATCH", source="___stack0", born=())
    start, end = line.index("int(") - 1, line.index("sizes") + len("sizes") + 1
    inside = at(25, (start + 1, start + 7), function="<listcomp>")
    whole = broken(at(25, (start, end), function="forward"), inside, gb="GB0124")
    alone = broken(inside, gb="GB0124", compile_id="1/0", frame_function="Net.forward.<listcomp>")
    ids = ("0/0", "1/0", "2/0", "2/1")
    compiles = tuple(Compile(name, int(name[0]), Outcome.COMPILED) for name in ids)
    facts = report(
        frames=(WHOLE, Frame("Net.forward.<listcomp>", inside), PART), compiles=compiles,
        recompiles=(again(carried, compile_id="2/1"),), breaks=(whole, alone),
    )  # fmt: skip
    text = dict.fromkeys(range(1, 25), "\n") | {20: "def forward(self, x, sizes):\n", 25: line}
    (finding,) = (
        item for item in findings(facts, read_line=lambda _, n: text.get(n)) if item.code == "FL201"
    )
    assert finding.title == f"recompiled: {value} was 3, now 4"


def test_a_long_expression_is_cut() -> None:
    carried = failed("___stack0 was 3, now 4", kind="EQUALS_MATCH", source="___stack0", born=())
    text = f"    return int({'x.abs()' + '.abs()' * 20}.item()) + 1"
    facts = report(
        frames=(PART,), compiles=(Compile("0/0", 0, Outcome.COMPILED), Compile("0/1", 0, Outcome.COMPILED)),
        recompiles=(again(carried, compile_id="0/1"),), breaks=(broken(at(25, (15, len(text) - 5))),),
    )  # fmt: skip
    (finding,) = (item for item in findings(facts, read_line=lambda *_: text) if item.code == "FL201")
    assert finding.title.startswith("recompiled: the value of `x.abs().abs()")
    assert finding.title.endswith("\N{HORIZONTAL ELLIPSIS}` on line 25 was 3, now 4")


def test_a_size_that_a_break_carried_over_is_reported_with_the_size_that_it_comes_from() -> None:
    carried = failed("___stack0.size(0) was 4, now 7", source="___stack0", born=())
    (finding,) = (
        item
        for item in in_parts(again(SIZE), again(carried, compile_id="1/1"), breaks=(broken(at(25, (8, 22))),))
        if item.code == "FL201"
    )
    assert finding.title == "recompiled: x.size(0) was 4, now 7"


def test_a_size_carried_over_a_break_is_not_a_user_number() -> None:
    carried = failed("___stack0.size(0) was 4, now 7", source="___stack0", born=())
    parts = in_parts(again(carried, compile_id="1/1"), breaks=(broken(at(25, (8, 22))),))
    (finding,) = (item for item in parts if item.code == "FL201")
    assert finding.title == "recompiled: size(0) of the value of `x.max().item()` on line 25 was 4, now 7"
    assert not removes(finding)


def test_a_carried_size_that_became_dynamic_has_the_users_name() -> None:
    carried = failed("___stack0.size(0) was 4, now 7", source="___stack0", born=())
    symbols = (Symbol("s0", "___stack0.size(0)"),)
    parts = in_parts(
        again(carried, compile_id="1/1"), breaks=(broken(at(25, (8, 22))),), part_symbols=symbols
    )
    (finding,) = (item for item in parts if item.code == "FL201")
    assert "torch then made size(0) of the value of `x.max().item()` on line 25 dynamic" in finding.message


def test_an_argument_stays_an_input_without_the_break() -> None:
    part = dataclasses.replace(PART, parameters=("self", "x"))
    compiles = (Compile("0/0", 0, Outcome.COMPILED), Compile("0/1", 0, Outcome.COMPILED, symbols=SYMBOLS))
    (finding,) = findings(report(frames=(part,), compiles=compiles, recompiles=(again(SIZE),)))
    assert untried(finding) == (
        "Mark the size as dynamic before the call: torch._dynamo.mark_dynamic(x, 0)",
        "Compile with torch.compile(..., dynamic=True)",
    )


def test_a_carried_number_is_on_the_line_that_computed_it() -> None:
    carried = failed("___stack0 was 3, now 4", kind="EQUALS_MATCH", source="___stack0", born=(at(29),))
    parts = in_parts(again(carried, compile_id="1/1"), breaks=(broken(at(25, (8, 22))),))
    assert {finding.span.line for finding in parts} == {25}


def test_a_fixed_size_of_a_carried_value_is_named_by_its_origin() -> None:
    carried = Symbol("s0", "___stack0.size(0)", specialized_to="5")
    compiles = (Compile("0/0", 0, Outcome.COMPILED, symbols=(carried,)),)
    actual_findings = findings(report(frames=(PART,), compiles=compiles))
    assert [finding.title for finding in actual_findings] == ["size(0) of a value on line 25 is fixed to 5"]


WRAPPER_DEF = at(5, function="checked.inner")


def through_decorator(*recompiles: Recompile) -> tuple[Finding, ...]:
    """The findings of a decorator (compiles 0/*) and of the function that it passes its arguments to (1/*)."""
    frames = (Frame("checked.inner", WRAPPER_DEF, wraps=DEF), dataclasses.replace(WHOLE))
    compiles = tuple(
        Compile(f"{frame}/{number}", frame, Outcome.COMPILED, symbols=SYMBOLS if number else ())
        for frame in (0, 1)
        for number in (0, 1)
    )
    return findings(report(frames=frames, compiles=compiles, recompiles=recompiles))


def _of_decorator(*failures: Any, **changes: Any) -> Recompile:
    return dataclasses.replace(
        again(*failures, compile_id="0/1", **changes), function="checked.inner", location=WRAPPER_DEF
    )


def test_a_decorator_that_recompiles_for_the_same_argument_is_reported_with_its_function() -> None:
    passed = dataclasses.replace(SIZE, born=(at(7, function="checked.inner"),))
    (finding,) = through_decorator(_of_decorator(passed), again(SIZE, compile_id="1/1"))
    assert (finding.title, finding.span.line) == ("recompiled: x.size(0) was 4, now 7", 22)
    assert finding.cost == (
        "`Net.forward` was compiled once more",
        "`checked.inner`, around it, was compiled again too",
        "2 recompilations in all",
    )


def test_a_decorator_that_recompiles_for_more_than_its_function_keeps_its_own_finding() -> None:
    count = failed("calls was 0, now 1", kind="EQUALS_MATCH", source="calls", born=(at(6),))
    assert len(through_decorator(_of_decorator(count), again(SIZE, compile_id="1/1"))) == 2
    passed = dataclasses.replace(SIZE, born=(at(7, function="checked.inner"),))
    assert len(through_decorator(_of_decorator(passed, call=1), again(SIZE, compile_id="1/1"))) == 2


TWO_BREAKS = "        sizes = lengths(x).tolist()"
"""`lengths` breaks the graph, and so does `tolist`: both on line 25."""


def after_two_breaks(*recompiles: Recompile, text: str = TWO_BREAKS) -> list[Finding]:
    """The recompilations of the part after the second break on a line."""
    lengths, both = at(25, (16, 26), function="forward"), at(25, (16, len(text)), function="forward")
    compiles = tuple(
        Compile(name, int(name[0] != "0"), Outcome.COMPILED) for name in ("0/0", "1/0", "2/0", "2/1", "2/2")
    )
    facts = report(
        frames=(WHOLE, PART), compiles=compiles, recompiles=recompiles,
        breaks=(broken(lengths, compile_id="0/0"), broken(both, gb="GB0033", compile_id="1/0")),
    )  # fmt: skip

    def read_line(_path: str, line: int) -> str | None:
        source = {20: "def forward(x):", 25: text, 26: "        return x.split(sizes)"}
        return source.get(line, "") if line <= 26 else None

    actual_findings = findings(facts, read_line=read_line)
    return [finding for finding in actual_findings if finding.code == "FL201"]


def number_of(item: int, was: int, now: int, compile_id: str) -> Recompile:
    source = f"___stack0[{item}]"
    failure = failed(
        f"{source} was {was}, now {now}",
        source=source,
        code=f"L['___stack0'][{item}] == {was}",
        born=(at(26),),
    )
    return again(failure, compile_id=compile_id)


def test_a_value_after_the_second_break_of_a_line_has_the_name_that_the_line_assigns() -> None:
    (graph_break,) = after_two_breaks(number_of(1, 5, 8, "2/1"))
    assert (graph_break.title, graph_break.span.line) == ("recompiled: sizes[1] was 5, now 8", 25)
    assert not removes(graph_break)
    assert untried(graph_break) == ("Compile with torch.compile(..., dynamic=True)",)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("        first, second = lengths(x).tolist()", "second"),
        ("        self.sizes: list[int] = lengths(x).tolist()", "self.sizes[1]"),
        ("        a, *rest = lengths(x).tolist()", "the value of `lengths(x).tolist()[1]` on line 25"),
        ("        use(lengths(x).tolist())", "the value of `lengths(x).tolist()[1]` on line 25"),
    ],
)
def test_the_name_of_a_carried_value_is_the_target_of_the_assignment(text: str, name: str) -> None:
    start, end = text.index("lengths"), text.index(".tolist()") + len(".tolist()")
    compiles = (
        Compile("0/0", 0, Outcome.COMPILED),
        Compile("1/0", 1, Outcome.COMPILED),
        Compile("1/1", 1, Outcome.COMPILED),
    )
    facts = report(
        frames=(WHOLE, PART), compiles=compiles, breaks=(broken(at(25, (start, end))),),
        recompiles=(number_of(1, 5, 8, "1/1"),),
    )  # fmt: skip
    lines = {24: "def forward(self, x):", 25: text}
    actual_findings = findings(
        facts, read_line=lambda _path, line: lines.get(line, "") if line < 30 else None
    )
    (title,) = (finding.title for finding in actual_findings if finding.code == "FL201")
    assert title == f"recompiled: {name} was 5, now 8"


def test_each_value_of_a_statement_that_assigns_several_has_its_own_name() -> None:
    text = "        low, high = x.min().item(), x.max().item()"
    frames = (WHOLE, PART, dataclasses.replace(PART, carried=2))
    compiles = tuple(
        Compile(name, int(name[0]), Outcome.COMPILED) for name in ("0/0", "1/0", "2/0", "1/1", "2/1")
    )
    breaks = (broken(at(25, (20, 34))), broken(at(25, (36, 50)), compile_id="1/0"))

    def changed(name: str, compile_id: str) -> Recompile:
        return again(failed(f"{name} was 2, now 3", source=name, born=()), compile_id=compile_id)

    def titles(*recompiles: Recompile) -> list[str]:
        lines = {24: "def forward(self, x):", 25: text}
        actual_findings = findings(
            report(frames=frames, compiles=compiles, breaks=breaks, recompiles=recompiles),
            read_line=lambda _path, line: lines.get(line, "") if line < 30 else None,
        )
        return [finding.title for finding in actual_findings if finding.code == "FL201"]

    assert titles(changed("___stack0", "1/1")) == ["recompiled: low was 2, now 3"]
    assert titles(changed("___stack1", "2/1")) == ["recompiled: high was 2, now 3"]
    both = titles(changed("___stack0", "1/1"), changed("___stack0", "2/1"))
    assert both == ["recompiled: low was 2, now 3"], "the part after the second break has the same value"


def test_two_recompilations_for_the_numbers_of_one_list_are_one_finding() -> None:
    (graph_break,) = after_two_breaks(number_of(0, 8, 4, "2/1"), number_of(1, 5, 8, "2/2"))
    assert (graph_break.title, graph_break.count) == ("recompiled: sizes[0] was 8, now 4", 2)
    assert "Later changes:\n- sizes[1] was 5, now 8" in graph_break.message


def test_a_sum_of_carried_values_is_reported_as_the_value_that_changed() -> None:
    code = "(5 + L['___stack0'][0]) == 32"
    total = failed(
        "5 + ___stack0[0] was 32, now 29", source="", code=code, cause=GuardCause.RELATION, born=(at(26),)
    )
    number = nearest(number_of(1, 5, 8, "2/1"))[0]
    (graph_break,) = after_two_breaks(again(total, number, compile_id="2/1"))
    assert graph_break.title == "recompiled: sizes[1] was 5, now 8"
    assert "29" not in graph_break.message
    (alone,) = after_two_breaks(again(total, compile_id="2/1"))
    assert alone.title == "recompiled: 5 + sizes[0] was 32, now 29"


@pytest.mark.parametrize(("now", "findings_of_both"), [("off", 1), ("on", 2)])
def test_a_carried_tensor_without_gradients_follows_from_the_grad_mode(
    now: str, findings_of_both: int
) -> None:
    was = "on" if now == "off" else "off"
    mode = failed(f"grad mode was {was}, now {now}", source="", born=(), cause=GuardCause.GLOBAL_STATE)
    carried = failed(
        "h.requires_grad was True, now False", source="h", born=(at(26),), cause=GuardCause.REQUIRES_GRAD
    )
    assert len(in_parts(again(mode), again(mode, carried, compile_id="1/1"))) == findings_of_both


FILLED = """\
    def forward(self, x):
        y = self.net(x)
        {}
        return self.out(y)
"""


def filled(statement: str, *, part: bool = True, other_object: bool = False) -> tuple[Finding, ...]:
    """The findings of a function that fills a dict, where it breaks: the dict was empty at the first compile."""
    lines = dict(enumerate(FILLED.format(statement).splitlines(), 20))
    read = at(22, (8, 18), function="forward")
    empty = failed(
        "self.seen was empty, now {'norm': 1.5}",
        "DICT_LENGTH",
        "self.seen",
        cause=GuardCause.KEYS,
        born=(read,),
    )
    frame = dataclasses.replace(PART, resumes_at=22)
    facts = report(
        frames=(WHOLE, frame) if part else (WHOLE,),
        compiles=(Compile("1/0", int(part), Outcome.COMPILED), Compile("1/2", int(part), Outcome.COMPILED)),
        breaks=(broken(at(22, (24, 40), function="forward"), gb="GB0124"),) if part else (),
        recompiles=(
            again(
                compile_id="1/2",
                entries=(
                    dataclasses.replace(again().entries[0], failures=(empty,), other_object=other_object),
                ),
            ),
        ),
    )
    return findings(facts, read_line=lambda _path, line: lines.get(line))


@pytest.mark.parametrize(
    ("statement", "steps"),
    [
        (
            "self.seen['norm'] = y.norm().item()",
            [
                "Create `self.seen['norm']` before the first call, as in __init__: the function adds it",
                "Or change `self.seen` outside the compiled code",
            ],
        ),
        (
            "self.seen[self.name] = y.norm().item()",
            ["Change `self.seen` outside the compiled code: return the values"],
        ),
        (
            "y = y * self.seen.setdefault(self.name, len(self.seen))",
            ["Read and change `self.seen` outside the compiled code: pass in what the code needs of it"],
        ),
        (
            "self.seen.setdefault(self.name, 1)",
            ["Change `self.seen` outside the compiled code: return the values"],
        ),
        (
            "self.seen['norm'] = self.seen['norm'] + y.norm().item()",
            ["Read and change `self.seen` outside the compiled code: pass in what the code needs of it"],
        ),
        (
            "if self.name not in self.seen: self.seen[self.name] = y.norm().item()",
            ["Read and change `self.seen` outside the compiled code: pass in what the code needs of it"],
        ),
        (
            "y = self.seen.get('norm', 0) + y.norm().item()",
            [
                "Compute `self.seen.get('norm', 0)` outside the compiled code",
                "1 possible change is not tried yet",
            ],
        ),
    ],
)
def test_a_dict_that_the_function_fills_is_named_with_what_keeps_its_keys(
    statement: str, steps: list[str]
) -> None:
    """Also of the second object of a class: it is the function that adds the key, and not another object."""
    for other_object in (False, True):
        given = filled(statement, part=False, other_object=other_object and "Compute" not in steps[0])
        (finding,) = (item for item in given if item.code == "FL201")
        assert len(finding.hints) == len(steps), finding.hints
        assert all(hint.startswith(step) for hint, step in zip(finding.hints, steps, strict=True))


def test_a_dict_that_the_line_of_a_break_fills_follows_from_the_break() -> None:
    (finding,) = (item for item in filled("self.seen['norm'] = y.norm().item()") if item.code == "FL201")
    assert finding.follows is not None
    assert (finding.follows.span.line, finding.follows.message) == (
        22,
        "it is in the code after the graph break on line 22",
    )
    (elsewhere,) = (
        item for item in filled("y = y.norm().item(); self.other['norm'] = y") if item.code == "FL201"
    )
    assert elsewhere.follows is None


def test_a_text_that_waits_for_a_break_is_to_be_expected() -> None:
    text = failed(
        "___stack0 was '4', now '8'",
        "EQUALS_MATCH",
        "___stack0",
        cause=GuardCause.VALUE,
        code="L['___stack0'] == '4'",
    )
    parts = in_parts(again(text, compile_id="1/1"), breaks=(broken(at(25, (8, 22)), gb="GB0124"),))
    (finding,) = (item for item in parts if item.code == "FL201")
    assert finding.hints[0].startswith("Expect one compile for each value of `x.max().item()` on line 25")


@pytest.mark.parametrize(
    ("source", "statement", "goes"),
    [
        ("steps", "global steps; steps += 1", False),
        ("steps", "global steps; steps = steps + 1", False),
        ("steps", "global steps; steps = len(x)", True),
        ("pool.used", "pool.used += 1", False),
        ("pool.used", "pool.used = len(x)", True),
        ("pool.used", "y = len(x)", False),
    ],
)
def test_a_global_does_not_cross_a_break(source: str, statement: str, *, goes: bool) -> None:
    number = failed(
        f"{source} was 3, now 4", "EQUALS_MATCH", source, expression=f"G['{source}']", born=(at(26),)
    )
    compiles = (Compile("0/0", 0, Outcome.COMPILED), Compile("0/1", 0, Outcome.COMPILED))
    text = {DEF.line: "def forward(self, x):", 24: f"    {statement}", 25: "    print(x)", 26: "    return x"}
    (finding,) = (
        item
        for item in findings(
            report(
                frames=(PART,),
                compiles=compiles,
                recompiles=(again(number),),
                breaks=(broken(at(25, (8, 22))),),
            ),
            read_line=lambda _path, line: text.get(line, "") if line < 30 else None,
        )
        if item.code == "FL201"
    )
    assert not removes(finding)
    assert (finding.follows is not None) is (goes and source == "steps")
