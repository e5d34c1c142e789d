"""Forecasts in words: what changes, why it compiles again, at what cost, and what to do."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from fuselight.shared.report import (
    CallChange,
    ChangeKind,
    Compile,
    Forecast,
    Frame,
    FrameForecast,
    Location,
    Outcome,
    Report,
    TriedValue,
)
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.forecasts.forecast_kinds import KINDS, RANKS, ChangeScope
from fuselight_server.explain.findings.forecasts.forecasts import (
    ExpectedChange,
    expected_changes,
    folded,
    folded_text,
    has_unasked_parts,
    lens_text,
)
from tests.support.recompilations import again, failed
from tests.support.reports import LIBRARY, VERSIONS, at, broken, report


def frame(*changes: Forecast, function: str = "Net.forward", **parts: Any) -> FrameForecast:
    base = FrameForecast(function, at(20), 1, 8, changes)
    return dataclasses.replace(base, **parts)


def size(subject: str, was: int = 6, now: int = 5, **parts: Any) -> Forecast:
    tensor, _, dimension = subject.partition(".size(")
    guard = f"tensor 'L['{tensor}']' size mismatch at index {dimension[:-1]}. expected {was}, actual {now}"
    base = Forecast(
        ChangeKind.SIZE, (subject,), str(was), str(now), recompiles=True, source=tensor, guard=guard
    )
    return dataclasses.replace(base, born=(at(21),), **parts)


def value(kind: ChangeKind, name: str, was: str, now: str, **parts: Any) -> Forecast:
    base = Forecast(
        kind, (name,), was, now, recompiles=True, source=name, guard=f"L['{name}'] == {was}", born=(at(22),)
    )
    return dataclasses.replace(base, **parts)


def mode(kind: ChangeKind, was: str, now: str, **parts: Any) -> Forecast:
    return Forecast(kind, (), was, now, recompiles=True, **parts)


def tried(change: Forecast, *compiles: int | str, values: tuple[str, ...] = ("5", "7", "8", "4")) -> Forecast:
    """A change whose values were tried: what each compiled, or the exception that it raised."""
    rows = (
        TriedValue(value, 0, count) if isinstance(count, str) else TriedValue(value, count)
        for value, count in zip(values, compiles, strict=False)
    )
    return dataclasses.replace(change, tried=tuple(rows))


def forecast_report(*frames: FrameForecast, torch: str = "2.13.0", fullgraph: bool | None = False) -> Report:
    return report(forecasts=frames, versions=dataclasses.replace(VERSIONS, torch=torch), fullgraph=fullgraph)


def changes(*frames: FrameForecast, torch: str = "2.13.0") -> tuple[ExpectedChange, ...]:
    return expected_changes(Context.of(forecast_report(*frames, torch=torch)))


TOKENS = (size("tokens.size(0)", 4, 3), size("tokens.size(1)", 7, 6))


def test_sizes_are_called_what_programs_use_them_for() -> None:
    batch, length = changes(frame(*TOKENS))
    assert batch.title == "the batch changes (tokens.size(0): 4 → 3)"
    assert length.title == "the sequence length changes (tokens.size(1): 7 → 6)"
    assert (batch.reason, batch.place) == ("tokens.size(0) == 4", at(21))
    (alone,) = changes(frame(size("x.size(0)")))
    assert alone.title == "x.size(0) changes (6 → 5)", "a vector has no batch"
    image = tuple(size(f"x.size({dimension})", is_likely=dimension != 1) for dimension in range(4))
    nouns = [change.noun for change in changes(frame(*image))]
    assert nouns == ["the batch", "the height", "the width", "x.size(1)"], "the likely ones first"


def test_a_size_of_several_tensors_is_one_change() -> None:
    both = dataclasses.replace(TOKENS[0], subject=("tokens.size(0)", "mask.size(0)"))
    others = (TOKENS[1], dataclasses.replace(TOKENS[1], subject=("mask.size(1)",), recompiles=False))
    expected_changes = changes(frame(both, *others))
    assert expected_changes[0].title == "the batch changes (tokens.size(0) and mask.size(0): 4 → 3)"
    assert "mark_dynamic(tokens, 0), torch._dynamo.mark_dynamic(mask, 0)" in expected_changes[0].remedies[0]


@pytest.mark.parametrize(
    ("change", "cost", "further"),
    [
        (size("x.size(0)"), "one more compile", 1),
        (
            tried(size("x.size(0)"), 1, 0, 0, 0),
            "one more compile, which also serves other sizes (5, 7, 8 and 4 tried)",
            1,
        ),
        (
            tried(size("x.size(0)", repeats=True), 1, 0, 1, 0),
            "2 of 4 other sizes compile (5, 7, 8 and 4 tried)",
            2,
        ),
        (
            tried(size("x.size(0)"), 1, "ValueError", 0),
            "one more compile, which also serves other sizes (5 and 8 tried); ValueError with 7",
            1,
        ),
        (tried(size("x.size(0)"), "ValueError", "ValueError"), "the call raises ValueError with 5", 0),
        (tried(size("x.size(0)"), 1, "ValueError"), "one more compile; ValueError with 7", 1),
        (
            tried(value(ChangeKind.ATTRIBUTE, "self.rate", "2", "3"), 1, 1, 2, values=("3", "4", "5")),
            "each new value compiles: 7 more until the limit of 8, then eager mode (3, 4 and 5 tried)",
            7,
        ),
        (
            tried(value(ChangeKind.LENGTH, "items", "2", "3"), 1, 1, values=("3", "4")),
            "each new length compiles: 7 more until the limit of 8, then eager mode (length 3 and length 4 tried)",
            7,
        ),
        (value(ChangeKind.ATTRIBUTE, "self.rate", "2", "3", repeats=True), "one more compile", 1),
        (value(ChangeKind.VALUE, "flag", "True", "False", repeats=True), "one more compile", 1),
        (value(ChangeKind.NUMBER, "n", "2", "3"), "one more compile", 1),
        (mode(ChangeKind.GRAD_MODE, "off", "on"), "one more compile", 1),
    ],
)
def test_the_cost_says_how_many_compiles(change: Forecast, cost: str, further: int) -> None:
    (expected_change,) = changes(frame(change))
    assert (expected_change.cost, expected_change.further_compiles) == (cost, further)


@pytest.mark.parametrize(
    "change",
    [
        size("x.size(0)"),
        value(ChangeKind.NUMBER, "n", "2", "3"),
        value(ChangeKind.DTYPE, "x", "f32", "bf16"),
        dataclasses.replace(size("x.size(0)", now=1), kind=ChangeKind.SIZE_ONE),
    ],
)
def test_a_change_whose_calls_raise_has_no_advice(change: Forecast) -> None:
    (alone,) = changes(frame(change))
    assert alone.remedies, "the guards alone do not show it"
    assert not alone.raises
    (raising,) = changes(frame(tried(change, "ValueError")))
    assert (raising.raises, raising.remedies, raising.call_changes) == (True, (), ())
    assert lens_text([raising]) == ""
    full = dataclasses.replace(frame(tried(change, "ValueError")), compiles=8)
    assert changes(full)[0].cost == "the call raises ValueError with 5", "also where the limit is reached"
    (in_part,) = changes(frame(tried(change, 1, "ValueError")))
    assert in_part.remedies == alone.remedies, "other values are served"


@pytest.mark.parametrize("kind", [ChangeKind.NUMBER, ChangeKind.ATTRIBUTE])
@pytest.mark.parametrize("was", ["0.5", "-2.0", "1e-05", "inf", "nan"])
def test_how_often_floats_compile_is_said_only_where_each_of_them_does(kind: ChangeKind, was: str) -> None:
    """AOTAutograd, without which the values are tried, can only add compiles: it fixes floats."""
    change = value(kind, "self.rate", was, "0.75")
    for compiles in ((1, 0, 0), (1, 0, 1)):
        (expected_change,) = changes(frame(tried(change, *compiles)))
        assert expected_change.cost == "one more compile"
    (expected_change,) = changes(frame(tried(change, 1, 0, "ValueError")))
    assert expected_change.cost == "one more compile; ValueError with 8"
    (expected_change,) = changes(frame(tried(change, 1, 1, 1)))
    assert expected_change.cost.startswith("each new value compiles")


@pytest.mark.parametrize(
    ("fullgraph", "end", "then"),
    [
        (False, "eager mode: ", ", then eager mode"),
        (True, "an exception, because of fullgraph=True: ", ", then an exception, because of fullgraph=True"),
        (None, "", ""),
    ],
)
def test_at_the_limit_a_change_does_what_torch_compile_was_asked_for(
    fullgraph: bool | None,  # noqa: FBT001 - each case
    end: str,
    then: str,
) -> None:
    (change,) = expected_changes(
        Context.of(forecast_report(frame(size("x.size(0)"), compiles=8), fullgraph=fullgraph))
    )
    assert (change.cost, change.further_compiles) == (f"{end}the limit of 8 compiles is reached", 0)
    count = tried(value(ChangeKind.NUMBER, "n", "3", "4"), 1, 1)
    (change,) = expected_changes(Context.of(forecast_report(frame(count), fullgraph=fullgraph)))
    assert change.cost == f"each new value compiles: 7 more until the limit of 8{then} (5 and 7 tried)"


def test_what_does_not_recompile_comes_last_and_has_neither_cost_nor_remedy() -> None:
    same = dataclasses.replace(TOKENS[0], recompiles=False, guard="", source="", born=())
    expected_changes = changes(frame(same, mode(ChangeKind.AUTOCAST, "off", "on", is_likely=False)))
    assert [change.kind for change in expected_changes] == [ChangeKind.AUTOCAST, ChangeKind.SIZE]
    assert (
        expected_changes[-1].recompiles,
        expected_changes[-1].cost,
        expected_changes[-1].reason,
        expected_changes[-1].remedies,
    ) == (False, "", "", ())


def compiled(given: Report, *frames: Frame) -> Report:
    compiles = tuple(Compile(f"{index}/0", index, Outcome.COMPILED) for index in range(len(frames)))
    return dataclasses.replace(given, frames=frames, compiles=compiles)


PARTS = (Frame("Net.forward", at(20)), Frame("Net.forward", at(20), resumes_at=24))


def test_code_without_a_forecast_is_not_said_to_need_no_compile() -> None:
    same = dataclasses.replace(TOKENS[0], recompiles=False)
    given = compiled(forecast_report(frame(same, TOKENS[1])), *PARTS)
    assert [change.noun for change in expected_changes(Context.of(given))] == ["the sequence length"]
    assert has_unasked_parts(given)
    asked = compiled(forecast_report(frame(same, TOKENS[1]), frame(resumes_at=24)), *PARTS)
    assert not has_unasked_parts(asked)
    assert len(expected_changes(Context.of(asked))) == 2


def test_the_parts_after_a_break_that_compile_too_are_in_the_entry_of_the_function() -> None:
    whole, part = frame(*TOKENS), frame(size("h.size(0)", 4, 3), resumes_at=24)
    change, _ = changes(whole, part)
    assert change.title == "the batch changes (tokens.size(0): 4 → 3)"
    assert change.functions == ("Net.forward", "Net.forward from line 24 on")
    assert change.cost == "one more compile; its part from line 24 on compiles too"
    other, _ = changes(whole, part, dataclasses.replace(part, resumes_at=26))
    assert other.cost.endswith("; its 2 later parts compile too")


def test_a_change_that_only_a_part_compiles_for_needs_a_compile() -> None:
    same = dataclasses.replace(TOKENS[0], recompiles=False, guard="", source="", born=())
    eval_same = dataclasses.replace(mode(ChangeKind.TRAINING, "training", "evaluation"), recompiles=False)
    training = mode(ChangeKind.TRAINING, "training", "evaluation")
    part = frame(size("h.size(0)", 4, 3), training, resumes_at=24)
    batch, to_eval, _ = changes(
        frame(same, dataclasses.replace(TOKENS[1], recompiles=False), eval_same), part
    )
    assert batch.title == "the batch changes (tokens.size(0): 4 → 3)"
    assert (batch.recompiles, batch.functions) == (True, ("Net.forward from line 24 on",))
    assert (batch.reason, batch.remedies[0]) == (
        "h.size(0) == 4",
        "Expect it: the code after the graph break on line 24 has guards on the values that cross the break",
    )
    assert (to_eval.recompiles, to_eval.functions) == (True, ("Net.forward from line 24 on",))


def test_what_a_part_made_itself_is_an_entry_only_if_it_compiles_again() -> None:
    count = value(ChangeKind.NUMBER, "k", "3", "4")
    (change,) = changes(
        frame(), frame(count, dataclasses.replace(count, subject=("m",), recompiles=False), resumes_at=24)
    )
    assert (change.title, change.functions) == (
        "k changes (3 → 4, after the graph break on line 24)",
        ("Net.forward from line 24 on",),
    )
    rows = frame(size("rows.size(0)", 5, 4), size("rows.size(1)", 8, 7), resumes_at=24)
    assert [expected_change.title for expected_change in changes(frame(TOKENS[0]), rows)][1:] == [
        "rows.size(0) changes (5 → 4, after the graph break on line 24)",
        "rows.size(1) changes (8 → 7, after the graph break on line 24)",
    ], "its meaning is not known"


def test_removing_a_break_is_no_advice_for_an_argument_that_the_code_after_it_reads() -> None:
    count = value(ChangeKind.NUMBER, "k", "3", "4")
    unread = dataclasses.replace(count, recompiles=False, guard="", source="", born=())
    (change,) = changes(frame(unread), frame(count, resumes_at=24))
    assert change.functions == ("Net.forward from line 24 on",)
    assert change.remedies[0].startswith("Pass `k` as a tensor")
    (alone,) = changes(frame(), frame(count, resumes_at=24))
    assert alone.remedies[0].startswith("Expect it: the code after the graph break on line 24")
    unread = dataclasses.replace(TOKENS[0], recompiles=False, guard="", source="", born=())
    (batch,) = changes(frame(unread), frame(TOKENS[0], resumes_at=24))
    assert batch.functions == ("Net.forward from line 24 on",)
    assert batch.remedies[0] == "Before the first call: torch._dynamo.mark_dynamic(tokens, 0)"


def test_a_value_that_a_break_carried_over_is_named_by_what_made_it() -> None:
    item = value(ChangeKind.NUMBER, "___stack1", "2.5", "4.0", guard="L['___stack1'] == 2.5")
    given = compiled(forecast_report(frame(item, resumes_at=24)), *PARTS)
    (change,) = expected_changes(Context.of(given))
    assert change.what == "a value on line 24 changes"
    assert (change.call_changes, lens_text([change])) == ((), ""), "no caller can change it"
    assert change.reason == "a value on line 24 == 2.5"


def test_changes_with_the_same_reason_are_one_entry() -> None:
    flags = [value(ChangeKind.VALUE, name, "True", "False", is_likely=False) for name in ("a", "b")]
    (change,) = changes(frame(*flags))
    assert (change.title, change.reason) == ("a and b change", "a == True; b == True")
    elsewhere = dataclasses.replace(flags[1], born=(at(30),))
    assert len(changes(frame(flags[0], elsewhere))) == 2


def test_a_mode_is_one_entry_for_all_functions() -> None:
    training = mode(ChangeKind.TRAINING, "training", "evaluation")
    (change,) = changes(frame(training), frame(training, function="g", location=at(40), compiles=8))
    assert (change.title, change.functions) == ("training to evaluation", ("Net.forward", "g"))
    sizes = changes(frame(TOKENS[0]), frame(TOKENS[0], function="g", location=at(40)))
    assert [expected_change.functions for expected_change in sizes] == [("Net.forward",), ("g",)]


def test_the_place_is_the_innermost_line_of_the_users() -> None:
    born = (at(21), at(25), Location(LIBRARY, 7))
    (change,) = changes(frame(dataclasses.replace(size("x.size(0)"), born=born)))
    assert change.place == at(25)
    (other,) = changes(frame(dataclasses.replace(size("x.size(0)"), born=born[2:])))
    assert other.place == born[2]


def test_expressions_are_written_as_the_user_would() -> None:
    guard = "L['self']._modules['layers']._modules['0'].p == 2 and G['SCALE'] == 3"
    (change,) = changes(frame(value(ChangeKind.ATTRIBUTE, "self.layers[0].p", "2", "3", guard=guard)))
    assert change.reason == "self.layers[0].p == 2 and SCALE == 3"
    guard, condition = "2 <= L['args'][0].size()[0]", "2 <= x.size(0)"
    (change,) = changes(
        frame(value(ChangeKind.SIZE_ONE, "x.size(0)", "6", "1", guard=guard, condition=condition))
    )
    assert (change.reason, change.guards) == (condition, (guard,))
    (given,) = changes(frame(dataclasses.replace(size("x.size(0)"), subject=("kwargs['ids'].size(0)",))))
    assert given.subject == ("ids.size(0)",)


def test_remedies_use_the_users_names() -> None:
    batch, _ = changes(frame(*TOKENS))
    mark, dynamic, spec = batch.remedies
    assert mark == "Before the first call: torch._dynamo.mark_dynamic(tokens, 0)"
    assert (
        dynamic == "Or compile with torch.compile(..., dynamic=True). Kernels for dynamic sizes can be slower"
    )
    assert 'shapes_spec=ParamsSpec({"tokens": TensorSpec([ShapeVar("n"), None])})' in spec
    library, _ = changes(frame(*TOKENS, location=Location(LIBRARY, 3)))
    assert "(x, 0) for the x that is passed as `tokens`" in library.remedies[0]
    assert len(library.remedies) == 2


@pytest.mark.parametrize(
    ("torch", "argument"), [("2.12.1", None), ("2.13.0+cpu", "shapes_spec"), ("2.14.1", "dynamic_shapes")]
)
def test_an_argument_of_compile_is_named_where_torch_has_it(torch: str, argument: str | None) -> None:
    text = " ".join(changes(frame(*TOKENS), torch=torch)[0].remedies)
    assert [name for name in ("shapes_spec", "dynamic_shapes") if name in text] == (
        [argument] if argument else []
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (dataclasses.replace(size("x.size(0)", 6, 1), kind=ChangeKind.SIZE_ONE), "mark_unbacked(x, 0)"),
        (value(ChangeKind.NUMBER, "n", "2", "3"), "`torch.tensor(n)`"),
        (
            value(ChangeKind.ATTRIBUTE, "self.rate", "2", "3"),
            "Keep it as a tensor, `self.rate = torch.tensor(2)`",
        ),
        (
            dataclasses.replace(value(ChangeKind.ATTRIBUTE, "SCALE", "2", "3"), guard="G['SCALE'] == 2"),
            "Pass `SCALE` as an argument",
        ),
        (value(ChangeKind.ATTRIBUTE, "options.rate", "2", "3"), "Keep `options.rate` as a tensor"),
        (value(ChangeKind.ATTRIBUTE, "self.on", "True", "False"), "choose between two functions"),
        (value(ChangeKind.DTYPE, "x", "f32", "bf16"), "`x.to(torch.float32)`"),
        (value(ChangeKind.STRIDES, "x", "contiguous", "transposed"), "`x.contiguous()`"),
        (value(ChangeKind.LENGTH, "items", "2", "3"), "`torch.stack(items)`"),
        (value(ChangeKind.REQUIRES_GRAD, "x", "False", "True"), "detach()"),
        (mode(ChangeKind.TRAINING, "training", "evaluation"), "train() and eval()"),
    ],
)
def test_each_change_has_a_remedy(change: Forecast, message: str) -> None:
    (expected_change,) = changes(frame(change))
    assert message in expected_change.remedies[0]


def test_what_a_call_can_change_is_given_as_a_call_with_the_change() -> None:
    batch, length = changes(frame(*TOKENS))
    assert batch.call_changes == (CallChange(ChangeKind.SIZE, ("tokens.size(0)",), "3"),)
    assert [change.text for change in length.call_changes] == ["tokens.size(1) = 6"]
    (rate,) = changes(frame(value(ChangeKind.ATTRIBUTE, "self.rate", "2", "3", repeats=True)))
    assert [change.now for change in rate.call_changes] == ["3", "4"], (
        "each value compiles: one more call shows it"
    )
    (grad,) = changes(frame(mode(ChangeKind.GRAD_MODE, "off", "on")))
    assert grad.call_changes == ()
    elsewhere = compiled(forecast_report(frame(*TOKENS)), Frame("main", at(3)), *PARTS)
    assert [change.call_changes for change in expected_changes(Context.of(elsewhere))] == [(), ()], (
        "not the target's inputs"
    )


def test_a_number_that_torch_needs_is_not_advised_to_be_a_tensor() -> None:
    """As the probability of a dropout: a tensor in its place is not compiled."""
    (change,) = changes(frame(tried(value(ChangeKind.NUMBER, "p", "0.1", "0.4"), 1, 1, 1)))
    assert change.remedies == ("Call it with few values of `p`: torch needs the value while it traces",)


def test_no_size_is_marked_inside_of_compiled_code() -> None:
    """A function that is compiled separately, because of a break in the compiled function that calls it."""
    elsewhere = compiled(forecast_report(frame(*TOKENS)), Frame("main", at(3)), *PARTS)
    for change in expected_changes(Context.of(elsewhere)):
        assert change.remedies[0].startswith("Compile with torch.compile(..., dynamic=True)")
        assert not any("mark_dynamic" in remedy for remedy in change.remedies)


def test_a_float_of_a_module_is_not_advised_to_be_a_symbolic_int() -> None:
    for was, now, has_setting in (("2", "3", True), ("0.5", "1.0", False)):
        (change,) = changes(frame(value(ChangeKind.ATTRIBUTE, "self.block.rate", was, now)))
        assert change.remedies[0].startswith("Keep it as a tensor, `self.block.rate = torch.tensor(")
        assert any("allow_unspec_int_on_nn_module" in remedy for remedy in change.remedies) is has_setting


def test_changes_with_the_same_reason_and_the_same_answers_are_one_entry() -> None:
    numbers = [value(ChangeKind.NUMBER, name, "2", "3") for name in "nmk"]
    first, second, third = tried(numbers[0], 1, 0), tried(numbers[1], 1, 0), tried(numbers[2], 1, 1)
    both, alone = changes(frame(first, second, third))
    assert both.title == "n and m change"
    assert both.cost == "one more compile, which also serves other values (2 of each tried)"
    assert alone.cost.startswith("each new value compiles")


def test_a_float_is_not_advised_to_be_dynamic() -> None:
    (change,) = changes(frame(value(ChangeKind.NUMBER, "p", "0.5", "1.0")))
    assert not any("dynamic=True" in remedy for remedy in change.remedies)


@pytest.mark.parametrize(("was", "each"), [("8", True), ("1", False)])
def test_a_number_that_was_fixed_again_after_a_change_compiles_for_each_value(
    was: str, *, each: bool
) -> None:
    """A size of 1 says nothing: torch compiles it separately."""
    number = value(ChangeKind.NUMBER, "n", "16", "17")
    changed = failed(f"n was {was}, now 16", kind="EQUALS_MATCH", source="n")
    text = dataclasses.replace(forecast_report(frame(number)), recompiles=(again(changed),))
    (change,) = expected_changes(Context.of(text))
    assert any("dynamic=True" in remedy for remedy in change.remedies) is not each


def test_a_number_that_is_a_size_is_not_advised_to_be_a_tensor() -> None:
    lines = {20: "def forward(x, n):", 21: "    return torch.stft(x, n, window=torch.hann_window(n))"}
    number = value(ChangeKind.NUMBER, "n", "16", "17")
    context = Context.of(forecast_report(frame(number)), read_line=lambda _path, line: lines.get(line))
    (change,) = expected_changes(context)
    assert change.remedies[0].startswith("Pad to a few fixed sizes: `n` is a size")


def test_the_lens_names_two_likely_changes_and_no_mode() -> None:
    number = value(ChangeKind.NUMBER, "n", "2", "3")
    unlikely = value(ChangeKind.ATTRIBUTE, "self.eps", "0.1", "0.4", is_likely=False)
    grad = mode(ChangeKind.GRAD_MODE, "off", "on")
    text = lens_text(changes(frame(*TOKENS, number, unlikely, grad)))
    assert text == "recompiles if the batch or the sequence length changes"
    assert len(text) <= 60
    assert lens_text(changes(frame(number, grad))) == "recompiles if n changes"
    assert lens_text(changes(frame(unlikely, grad))) == ""
    assert lens_text(()) == ""


def test_a_number_that_decides_a_loop_has_advice_of_its_own() -> None:
    count = dataclasses.replace(
        value(ChangeKind.NUMBER, "k", "3", "4"), repeats=True, is_loop_count=True, guard="L['k'] == 3"
    )
    (change,) = changes(frame(count))
    assert change.remedies == (
        "Compile the body of the loop instead: torch unrolls the loop, so that each `k` is compiled",
        "Or call it with few values of `k`",
    ), "neither a tensor nor dynamic=True would help"
    assert len(change.call_changes) == 2, "two further values are tried"


@pytest.mark.parametrize(
    "guard", ["tensor 'L['x']' size mismatch at index 1. expected 6, actual 5", "6 == s1"]
)
def test_a_size_that_decides_a_loop_has_the_advice_of_loops(guard: str) -> None:
    size = Forecast(
        ChangeKind.SIZE, ("x.size(1)",), "6", "5", recompiles=True, repeats=True, is_loop_count=True, source="x",
        guard=guard,
    )  # fmt: skip
    (change,) = changes(frame(size))
    assert change.remedies[0].startswith("Compile the body of the loop instead")
    assert not any("dynamic" in remedy for remedy in change.remedies)


def _separated(*breaks: Any, caller: tuple[Location, ...]) -> Report:
    """`Net.forward`, and `Block.forward`, which is compiled separately; both are compiled for their tensor's size."""
    block = at(40, function="forward")
    frames = (Frame("Net.forward", at(20)), Frame("Block.forward", block))
    given = forecast_report(
        frame(*TOKENS, mode(ChangeKind.GRAD_MODE, "off", "on")),
        frame(size("hidden.size(0)"), function="Block.forward", location=block),
    )
    given = compiled(given, *frames)
    outer, inner = given.compiles
    inner = dataclasses.replace(inner, caller=caller)
    return dataclasses.replace(given, compiles=(outer, inner), breaks=breaks)


def test_values_of_code_that_a_break_separates_come_last_and_are_one_line() -> None:
    call = at(24, function="forward")
    given = _separated(
        broken(at(30, function="other")), broken(at(24, function="forward"), at(42)), caller=(call,)
    )
    changes = expected_changes(Context.of(given))
    assert [change.noun for change in changes] == ["the batch", "the sequence length", "", "hidden.size(0)"]
    listed, breaks = folded(changes)
    assert [change.noun for change in listed] == ["the batch", "the sequence length", ""]
    assert breaks == [(Location(at(42).path, 42), 1)]
    assert (
        folded_text("model.py:42", 2)
        == "fix the break on model.py:42 first: 2 more changes recompile code that it separates"
    )


def test_a_function_that_no_break_separates_is_listed() -> None:
    given = _separated(broken(at(30, function="other")), caller=(at(24, function="forward"),))
    assert folded(expected_changes(Context.of(given)))[1] == []


def test_a_value_of_a_part_is_folded_under_the_break_before_it() -> None:
    count = value(ChangeKind.NUMBER, "k", "3", "4")
    listed, breaks = folded(changes(frame(*TOKENS), frame(count, resumes_at=24)))
    assert [change.noun for change in listed] == ["the batch", "the sequence length"]
    assert breaks == [(Location(at(24).path, 24), 1)]


def test_each_kind_has_one_entry_and_modes_come_from_no_input() -> None:
    assert set(KINDS) == set(ChangeKind)
    assert len(set(RANKS.values())) == len(ChangeKind)
    modes = {kind for kind, entry in KINDS.items() if entry.scope is ChangeScope.MODE}
    assert modes == {ChangeKind.TRAINING, ChangeKind.GRAD_MODE, ChangeKind.AUTOCAST}
    assert all(KINDS[kind].crosses_breaks and not KINDS[kind].is_of_data for kind in modes)


def test_the_page_names_each_kind() -> None:
    text = (Path(__file__).parents[4] / "docs/forecast.md").read_text(encoding="utf-8")
    (row,) = (line for line in text.splitlines() if line.startswith("| `kind` |"))
    assert [kind for kind in ChangeKind if f"`{kind.value}`" not in row] == []


@pytest.mark.parametrize("kind", ChangeKind)
def test_each_kind_is_in_words_with_a_remedy(kind: ChangeKind) -> None:
    subject = () if KINDS[kind].scope is ChangeScope.MODE else ("x.size(1)",)
    change = Forecast(kind, subject, "6", "5", recompiles=True, source="x", guard="L['x'] == 6")
    (expected_change,) = changes(frame(change))
    assert expected_change.what
    assert expected_change.remedies
    assert expected_change.remedies[0][0].isupper()
    assert "{" not in expected_change.what + expected_change.remedies[0]
