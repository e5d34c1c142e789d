"""Advice against a recompilation by its cause, and the sizes that a quick fix may mark."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from fuselight.shared.report import (
    Compile,
    Environment,
    Graph,
    GuardCause,
    GuardFailure,
    Location,
    Mismatch,
    Outcome,
    StaticSizes,
    Symbol,
)
from fuselight_server.base.finding import Finding, Severity
from fuselight_server.explain.findings import findings
from fuselight_server.explain.findings.advice.expectations import expectation
from tests.support.recompilations import SIZE, WHOLE, again, failed, finding_of, untried
from tests.support.reports import LIBRARY, at, report


def test_a_size_of_one_is_not_marked() -> None:
    (finding,) = findings(report(recompiles=(again(failed("x.size(0) was 4, now 1")),)))
    assert finding.fixes == ()
    assert "mark_dynamic" not in finding.message


@pytest.mark.parametrize("cause", GuardCause)
def test_each_cause_has_advice(cause: GuardCause) -> None:
    assert all(expectation(failed("something changed", cause=cause)))


def test_the_advice_is_about_the_wrapped_call_and_not_a_list() -> None:
    number = failed("the number of positional arguments was 2, now 1", cause=GuardCause.ARGUMENTS)
    (message,) = expectation(number)
    assert message.startswith("Expect one compile for each set of arguments")
    assert expectation(dataclasses.replace(number, cause=GuardCause.LENGTH)) != (message,)


@pytest.mark.parametrize(
    ("expression", "now", "is_advised"),
    [("G['pool'].used", "12", True), ("L['self'].used", "12", False), ("G['pool'].rate", "0.5", False)],
)
def test_a_global_integer_may_be_an_argument(expression: str, now: str, *, is_advised: bool) -> None:
    number = failed(f"pool.used was 6, now {now}", source="pool.used", expression=expression)
    advised = (
        "Or pass `pool.used` as an argument: torch keeps an int argument dynamic from its second value on"
    )
    assert any(remedy.text.startswith(advised) for remedy in finding_of(number).remedies) is is_advised


def test_an_argument_of_a_library_is_not_marked_by_the_library_name_for_it() -> None:
    size = failed("input_ids.size(1) was 64, now 80", source="input_ids", born=())
    inside = Location(LIBRARY, 647, function="forward")
    call = at(30, function="main")
    (finding,) = findings(report(recompiles=(again(size, location=inside, caller=(call,)),)))
    assert finding.span.line == call.line
    assert not any("mark_dynamic(input_ids" in remedy.text for remedy in finding.remedies)
    assert (finding.fixes, finding.data) == ((), ())


def again_with(
    *symbols: Symbol, difference: str = "x.size(0) was 4, now 7", makes_dynamic: bool = True, **changes: Any
) -> tuple[Finding, ...]:
    """The findings of a function whose second compile made `symbols`."""
    second = Compile("0/1", 0, Outcome.COMPILED, symbols=symbols, makes_dynamic=makes_dynamic)
    compiles = (Compile("0/0", 0, Outcome.COMPILED), second)
    failure = failed(difference, source=difference.partition(" was ")[0].partition(".")[0])
    return findings(report(frames=(WHOLE,), compiles=compiles, recompiles=(again(failure),), **changes))


def test_a_size_that_code_fixes_must_not_be_marked() -> None:
    findings = again_with(Symbol("s0", "x.size(0)", specialized_to="7", stack=(at(30),)))
    (finding,) = (item for item in findings if item.code == "FL201")
    assert (finding.fixes, finding.data) == ((), ())
    assert any(related.message == "this line fixes it to one value" for related in finding.related)


def test_a_size_that_the_program_keeps_fixed_is_not_marked_by_a_fix() -> None:
    (finding,) = again_with(makes_dynamic=False)
    assert finding.fixes == ()
    config = Environment(config={"automatic_dynamic_shapes": "False"})
    (finding,) = again_with(environment=config)
    assert any("automatic_dynamic_shapes = True" in text for text in untried(finding))


def test_a_size_that_code_fixes_after_it_changed_is_in_the_finding_of_the_recompilation() -> None:
    (finding,) = again_with(Symbol("s0", "x.size(0)", specialized_to="7", stack=(at(30),)))
    assert finding.code == "FL201"
    assert [
        item.span.line for item in finding.related if item.message == "this line fixes it to one value"
    ] == [30]
    # what was marked, or did not change, has a finding of its own
    (marked, _) = again_with(Symbol("s0", "x.size(0)", specialized_to="7", stack=(at(30),), marked=True))[
        ::-1
    ]
    assert (marked.code, "do not mark it" in marked.message) == ("FL301", True)
    (other, _) = again_with(Symbol("s0", "y.size(0)", specialized_to="7", stack=(at(30),)))[::-1]
    assert (other.code, "mark it" in other.message) == ("FL301", False)


STATE = {"static": StaticSizes.STATE, "source": "self.fc.weight"}


@pytest.mark.parametrize(
    ("failure", "is_other", "advised", "never"),
    [
        (failed("weight.size(0) was 4, now 7", source="weight", static=StaticSizes.STATE), False,
         ("one compile for each value", "is a parameter or a buffer"), "pad"),
        (failed("self.fc.weight.size(0) was 4, now 7", **STATE), True,
         ("one compile for each such object", "share its compiled versions"), "mark_dynamic"),
        (failed("self.fc.weight.size(0) was 4, now 7", **STATE), False,
         ("one compile for each value",), "dynamic=True"),
        (failed("self.fc.weight.requires_grad was True, now False", cause=GuardCause.REQUIRES_GRAD, **STATE), False,
         ("before the first call", "one compile for each set"), "detach"),
        (failed("x.requires_grad was True, now False", cause=GuardCause.REQUIRES_GRAD), False,
         ("detach()",), "Freeze"),
        (failed("the class Net of self was created again", source="self", cause=GuardCause.CLASS), True,
         ("Define the class once",), "reset()"),
        (failed("the class torch.nn.utils.parametrize.ParametrizedConv2d of self.conv was created again",
                source="self.conv", cause=GuardCause.CLASS), False,
         ("one compile for each such object", "torch creates a class for each"), "define the class once"),
        (failed("ids was a normal tensor, now an inference tensor", source="ids", cause=GuardCause.DISPATCH), False,
         ("Create `ids` under the same mode", "torch.inference_mode()"), "resolve_conj"),
        (failed("x was an ordinary tensor, now a lazily conjugated view", cause=GuardCause.DISPATCH), False,
         ("resolve_conj()",), "inference_mode"),
        (failed("x was an ordinary tensor, now a batch of torch.vmap", cause=GuardCause.DISPATCH), False,
         ("torch.compile(torch.vmap(f))",), "resolve_conj"),
        (failed("the dispatch keys of x differ: now Other", cause=GuardCause.DISPATCH), False,
         ("one compile for each kind",), "resolve_conj"),
        (failed("x was None, now a float32 tensor of shape [4]", source="x", cause=GuardCause.NONE), False,
         ("as None, and one for each",), "of one kind"),
        (failed("cache was None, now a list of 2", source="cache", cause=GuardCause.NONE), False,
         ("`cache` as None",), "tensor"),
        (failed("p.grad was freed", source="p.grad", cause=GuardCause.DELETED), False,
         ("set_to_none=False", "keeps its memory"), "creating a new one"),
    ],
)  # fmt: skip
def test_advice_is_for_what_the_tensor_is(
    failure: GuardFailure, *, is_other: bool, advised: tuple[str, ...], never: str
) -> None:
    words = " ".join(expectation(failure, other_object=is_other))
    assert all(text in words for text in advised), words
    assert never not in words


def test_another_object_of_the_class_is_expected_to_be_compiled() -> None:
    size = failed("self.fc.weight.size(0) was 4, now 7", **STATE)
    other = (Mismatch("0/0", (size,), other_object=True),)
    (finding,) = findings(report(recompiles=(again(entries=other),)))
    assert (finding.severity, finding.fixes) == (Severity.INFORMATION, ())
    assert "It was called on another object" in finding.message
    number = failed("self.index was 4, now 7", source="self.index", kind="EQUALS_MATCH")
    (finding,) = findings(
        report(recompiles=(again(entries=(Mismatch("0/0", (size, number), other_object=True),)),))
    )
    assert finding.severity is Severity.WARNING


@pytest.mark.parametrize(
    ("reason", "title"),
    [
        ("0/0: tensor 'x' size mismatch at index 1. expected 4, actual 7", "x.size(1) was 4, now 7"),
        (
            "0/0: tensor 'self.fc.weight' size mismatch at index 0. expected 4",
            "self.fc.weight.size(0) was 4, now 7",
        ),
    ],
)
def test_blocks_of_other_channels_are_reported_by_the_input_where_torch_checks_it_first(
    reason: str, title: str
) -> None:
    size = failed("self.fc.weight.size(0) was 4, now 7", **STATE)
    given = failed("x.size(1) was 4, now 7")
    entries = (Mismatch("0/0", (size, given), other_object=True),)
    (finding,) = findings(report(recompiles=(again(entries=entries, reasons=(reason,)),)))
    assert finding.title == f"recompiled: {title}"
    assert (finding.severity, finding.fixes) == (Severity.INFORMATION, ())
    assert finding.hints[0].startswith("Expect one compile for each such object")
    assert "mark_dynamic" not in finding.message


def test_a_view_at_the_start_of_its_memory_is_no_size() -> None:
    words = "2 <= part.storage_offset() no longer holds: part.storage_offset() is 0"
    failure = failed(words, code="2 <= L['part'].storage_offset()", now="0", cause=GuardCause.RELATION)
    (text,) = expectation(failure)
    assert "part.clone()" in text
    assert "size" not in text


def test_an_object_of_another_class_explains_all_other_guards() -> None:
    size, given = failed("self.fc.weight.size(0) was 4, now 7", **STATE), failed("x.size(1) was 4, now 7")
    kind = failed(
        "the type of self was app.Gated, now app.Plain", source="self", now="app.Plain", cause=GuardCause.TYPE
    )
    entries = (Mismatch("0/0", (size, given, kind), other_object=True),)
    reason = "0/0: tensor 'x' size mismatch at index 1. expected 4, actual 7"
    (finding,) = findings(report(recompiles=(again(entries=entries, reasons=(reason,)),)))
    assert finding.title == "recompiled: the type of self was app.Gated, now app.Plain"
    assert "on an object of another class" in finding.message
    assert finding.hints[0].startswith("Expect one compile for each such object")
    assert not any("`x`" in hint or "x.size" in hint for hint in finding.hints)


def test_a_kind_of_tensor_is_created_under_one_mode() -> None:
    kind = failed(
        "ids was a normal tensor, now an inference tensor",
        source="ids",
        was="a normal tensor",
        now="an inference tensor",
        cause=GuardCause.DISPATCH,
    )
    (finding,) = findings(report(recompiles=(again(kind),)))
    assert finding.hints[0].startswith("Create `ids` under the same mode each time")


def test_a_library_has_its_own_remedy() -> None:
    inside = Location("/env/site-packages/transformers/cache_utils.py", 90, function="update")
    size = failed("past_key_values.layers[0].keys.size(2) was 4, now 5", source="past_key_values.layers[0].keys",
                  born=(at(30, function="main"), inside))  # fmt: skip
    (finding,) = findings(report(recompiles=(again(size),)))
    assert 'cache_implementation="static"' in finding.hints[0]
    assert "mark_dynamic" not in finding.message
    cached = "past_key_values.layers[0].is_initialized"
    filled = failed(f"{cached} was False, now True", source=cached, cause=GuardCause.VALUE, born=(inside,))
    (finding,) = findings(report(recompiles=(again(filled),)))
    assert "StaticCache" not in finding.message, "its first call initializes it, too"
    betas = failed("self.param_groups[0]['betas'][0] was 0.95, now 0.94", source="self.param_groups[0]['betas'][0]",
                   cause=GuardCause.NUMBER)  # fmt: skip
    step = Location("/env/site-packages/torch/optim/adam.py", 215, function="step")
    (finding,) = findings(report(recompiles=(again(betas, location=step, caller=(at(30),)),)))
    assert "cycle_momentum=False" in finding.hints[0]
    assert "buffer" not in finding.message


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
    (finding,) = findings(report(frames=(WHOLE,), compiles=compiles, recompiles=(again(relation),)))
    assert (finding.code, finding.severity) == ("FL201", Severity.INFORMATION)
    assert "mark" not in finding.message
    (alone,) = findings(report(frames=(WHOLE,), compiles=compiles[1:]))
    assert (alone.code, alone.severity) == ("FL301", Severity.INFORMATION)


def test_a_size_that_only_another_rank_made_symbolic_is_information() -> None:
    rank = failed("grad.dim() was 2, now 1", source="grad", cause=GuardCause.RANK)
    frame = dataclasses.replace(WHOLE, parameters=("param", "grad"))

    def fixed(*, marked: bool, failures: tuple[GuardFailure, ...]) -> Finding:
        size = Symbol("s0", "param.size(0)", specialized_to="8", stack=(at(30),), marked=marked)
        compiles = tuple(Compile(f"0/{number}", 0, Outcome.COMPILED, symbols=(size,)) for number in (0, 1))
        recompiles = tuple(again(failure) for failure in failures)
        given = findings(report(frames=(frame,), compiles=compiles[1:], recompiles=recompiles))
        return next(finding for finding in given if finding.code == "FL301")

    steady = fixed(marked=False, failures=(rank,))
    assert (steady.severity, steady.cost) == (Severity.INFORMATION, ())
    assert steady.hints[0].startswith("Expect it")
    assert (
        fixed(marked=False, failures=(failed("lr was 1, now 2", source="lr"),)).severity is Severity.WARNING
    )
    assert fixed(marked=True, failures=(rank,)).severity is Severity.WARNING


@pytest.mark.parametrize(
    "types", [("int", "torch.Tensor"), ("NoneType", "torch.Tensor"), ("float", "torch.Tensor")]
)
def test_a_size_that_only_another_type_of_the_argument_made_symbolic_is_information(
    types: tuple[str, str],
) -> None:
    """torch makes all sizes of an argument symbolic that was no tensor before."""
    was, now = types
    change = failed(
        f"the type of grad was {was}, now {now}", source="grad", cause=GuardCause.TYPE, was=was, now=now
    )
    frame = dataclasses.replace(WHOLE, parameters=("grad", "other"))

    def fixed(name: str) -> Finding:
        size = Symbol("s0", f"{name}.size(0)", specialized_to="8", stack=(at(30),))
        compiled = Compile("0/1", 0, Outcome.COMPILED, symbols=(size,))
        given = findings(report(frames=(frame,), compiles=(compiled,), recompiles=(again(change),)))
        return next(finding for finding in given if finding.code == "FL301")

    steady = fixed("grad")
    assert (steady.severity, steady.cost) == (Severity.INFORMATION, ())
    assert steady.hints == (
        "Expect it: calls passed something else than a tensor, after which torch makes all sizes dynamic",
    )
    assert fixed("other").severity is Severity.WARNING


@pytest.mark.parametrize(
    ("cause", "was", "now", "hint"),
    [
        (GuardCause.TYPE, "int", "float", "Expect one compile for each type of `level`"),
        (GuardCause.NONE, "None", "2", "Expect one compile for `level` as None, and one for each other kind"),
        (GuardCause.NUMBER, "2.5", "3.5", "Expect one extra compile: torch keeps `level` dynamic"),
    ],
)  # fmt: skip
def test_only_another_value_is_expected_to_stay_symbolic(
    cause: GuardCause, was: str, now: str, hint: str
) -> None:
    """A number that torch made symbolic in the compile that followed still has one compile for each type."""
    failure = failed(f"level was {was}, now {now}", source="level", cause=cause, was=was, now=now)
    graph = Graph(1, inputs=("l_level_: f64[]",))
    compiled = Compile("0/1", 0, Outcome.COMPILED, symbols=(Symbol("zf0", "level"),), graph=graph)
    facts = report(frames=(WHOLE,), compiles=(compiled,), recompiles=(again(failure),))
    (finding,) = (item for item in findings(facts) if item.code == "FL201")
    assert finding.hints[0].startswith(hint)


def test_sizes_that_vary_together_are_marked_together() -> None:
    other = failed("y.size(0) was 4, now 7", source="y")
    (finding,) = findings(report(recompiles=(again(SIZE, other),)))
    assert any(
        text.endswith("torch._dynamo.mark_dynamic(x, 0), torch._dynamo.mark_dynamic(y, 0)")
        for text in untried(finding)
    )
    assert finding.fixes == ("mark_dynamic",)
    assert finding.data == (("parameter", "x"), ("dimension", "0"), ("parameter", "y"), ("dimension", "0"))


def test_each_size_of_a_tensor_that_varied_is_marked_but_for_those_that_torch_fixes() -> None:
    (finding,) = findings(
        report(
            recompiles=(
                again(failed("x.size(0) was 4, now 7; x.size(1) was 3, now 1; x.size(2) was 5, now 6")),
            )
        )
    )
    assert finding.data == (("parameter", "x"), ("dimension", "0"), ("parameter", "x"), ("dimension", "2"))


def test_a_size_without_a_name_has_no_fix() -> None:
    (finding,) = findings(
        report(recompiles=(again(SIZE, failed("xs[0].size(0) was 4, now 7", source="xs[0]")),))
    )
    assert finding.fixes == ()
    assert any("mark_dynamic(xs[0], 0)" in text for text in untried(finding))


@pytest.mark.parametrize(("innermost", "line"), [(LIBRARY, 30), ("/project/model.py", 8)])
def test_a_value_that_torch_reads_for_a_subclass_is_on_the_line_of_the_operator(
    innermost: str, line: int
) -> None:
    """What `super().__torch_function__` reads is no matter of the subclass; what its own code reads is."""
    inside = (at(1529, path=LIBRARY, function="__torch_function__"),) if innermost == LIBRARY else ()
    born = (at(30, function="forward"), at(8, function="__torch_function__"), *inside)
    hop = failed("hop was 1, now 3", source="hop", cause=GuardCause.NUMBER, born=born)
    (finding,) = findings(report(recompiles=(again(hop),)))
    assert finding.span.line == line
