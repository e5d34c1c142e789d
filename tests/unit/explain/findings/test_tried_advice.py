"""What a finding says of the changes that were tried, and of those that were not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuselight.shared.report import (
    Break,
    CallCure,
    Compile,
    CureKind,
    CureTrial,
    GuardCause,
    Outcome,
    Problem,
    Symbol,
)
from fuselight_server.base.finding import Finding
from fuselight_server.base.remedies import NO_CALL, RemedyState
from fuselight_server.explain.findings import findings
from fuselight_server.explain.findings.advice.advice import together
from fuselight_server.explain.findings.advice.break_cures import INLINED
from fuselight_server.explain.findings.advice.trial_verdict import NOT_APPLIED
from tests.support.recompilations import DEF, SIZE, WHOLE, again, failed, finding_of, number, untried
from tests.support.reports import at, report


def test_a_change_that_was_not_tried_is_counted_and_no_advice() -> None:
    """Nor is it said that nothing helps: `dynamic=True` alone is left out, as it keeps no integer of a module."""
    finding = finding_of(number())
    assert finding.hints == ("2 possible changes are not tried yet",)
    assert untried(finding) == (
        "Keep `self.limit` as a tensor",
        (
            "Set torch._dynamo.config.allow_unspec_int_on_nn_module = True before the first call (it keeps ints of "
            "modules dynamic)"
        ),
    )
    assert finding_of(replace(number("n"), was="0.5", now="0.7")).hints == (
        "1 possible change is not tried yet",
    )


HINT = " (HINT: torch.compile considers integer attributes of the nn.Module to be static.)"


@pytest.mark.parametrize(
    ("reason", "is_tried"),
    [
        (f"0/0: self.limit == 2{HINT}", True),
        (f"0/0: fn.__self__.limit == 2{HINT}", True),
        ("0/0: self.limit == 2  # x = x * self.limit", False),
        ("0/0: fn.__self__.limit == 2  # x = x * self.limit", False),
        ("0/0: tensor 'x' size mismatch at index 0", True),
    ],
)
def test_the_setting_for_integers_of_modules_is_tried_unless_torch_names_a_plain_object(
    reason: str, *, is_tried: bool
) -> None:
    given = report(frames=(WHOLE,), recompiles=(again(number(), reasons=(reason,)),))
    (finding,) = (item for item in findings(given) if item.code == "FL201")
    assert any(cure.kind is CureKind.SETTING for cure in finding.cures) is is_tried


def test_what_torch_made_dynamic_is_not_the_cause_beside_a_value_that_stays_fixed() -> None:
    """`rows` costs no further compile, whichever guard torch checks first."""
    rows = failed("rows was 3, now 4", kind="EQUALS_MATCH", source="rows", cause=GuardCause.NUMBER)
    small = failed("x.size(0) was 4, now 1")
    compiled = Compile("0/1", 0, Outcome.COMPILED, symbols=(Symbol("s0", "rows"),))
    given = report(frames=(WHOLE,), compiles=(compiled,), recompiles=(again(rows, small),))
    (finding,) = (item for item in findings(given) if item.code == "FL201")
    assert finding.title == "recompiled: x.size(0) was 4, now 1"
    assert not any("`rows`" in hint for hint in finding.hints)


def test_only_what_cures_is_shown_the_fewest_compiles_first() -> None:
    tensor, setting, dynamic = finding_of(number()).cures
    trials = (
        CureTrial(tensor, 5, 0, "line 21 then runs outside of graphs"),
        CureTrial(dynamic, 5, 3),
        CureTrial(setting, 5, 2),
    )
    first, second = finding_of(number(), trials=trials).hints
    assert first.startswith(
        "Set torch._dynamo.config.allow_unspec_int_on_nn_module = True before the first call"
    )
    assert first.endswith("(tried: 5 → 2 compiles)")
    assert second == (
        "Or compile with torch.compile(..., dynamic=True) (tried: 5 → 3 compiles). "
        "Kernels for dynamic sizes can be slower"
    )


def test_what_a_trial_refused_stays_in_the_list_with_the_reason_and_is_never_said() -> None:
    tensor, setting, dynamic = finding_of(number()).cures
    trials = (
        CureTrial(tensor, 5, 0, "line 21 then runs outside of graphs"),
        CureTrial(dynamic, 5, 3),
        CureTrial(setting, 0, 0, NOT_APPLIED, is_made=False),
    )
    finding = finding_of(number(), trials=trials)
    assert [(remedy.state, remedy.kind, remedy.counts, remedy.why) for remedy in finding.remedies] == [
        (RemedyState.TRIED, "dynamic", "5 → 3 compiles", ""),
        (RemedyState.REFUSED, "tensor", "5 → 0 compiles", "line 21 then runs outside of graphs"),
    ]
    assert len(finding.hints) == 1
    assert "as a tensor" not in finding.message
    without_dynamic = finding_of(number(), trials=trials[::2]).remedies
    assert [(remedy.state, remedy.why) for remedy in without_dynamic[1:]] == [
        (RemedyState.NOT_TRIED, NO_CALL),
        (RemedyState.REFUSED, trials[0].refused),
    ]


def test_a_change_says_why_no_trial_of_it_could_be_made() -> None:
    problem = Problem("trials", "cures", "the program compiled something else when it ran again")
    (finding,) = findings(report(recompiles=(again(number()),), problems=(problem,)))
    assert finding.hints[:2] == (
        "Expect one compile for each value of `self.limit`",
        f"Keep `self.limit` as a tensor (not tried: {problem.why})",
    )


def test_where_nothing_cures_the_compiles_are_expected() -> None:
    trials = tuple(CureTrial(cure, 3, 3, "there are still 3 compiles") for cure in finding_of(number()).cures)
    assert finding_of(number(), trials=trials).hints == ("Expect one compile for each value of `self.limit`",)


def test_several_changes_are_advised_where_none_of_them_saves_as_much_alone() -> None:
    first, second = (
        replace(number("low"), was="0.1", now="0.2"),
        replace(number("high"), was="0.9", now="0.8"),
    )
    low, high = finding_of(first, second).cures
    joint = together((low, high))
    assert finding_of(first, second, trials=(CureTrial(joint, 3, 1),)).hints == (
        (
            "Pass `low` and `high` as tensors (tried: 3 → 1 compiles). "
            "A float32 tensor rounds its values, such as `0.1`; a float64 tensor keeps them"
        ),
    )
    refused = (CureTrial(low, 3, 3, "as many"), CureTrial(high, 3, 2), CureTrial(joint, 3, 2))
    hints = finding_of(first, second, trials=refused).hints
    assert hints[0].startswith("Pass `high` as a tensor (tried: 3 → 2 compiles)"), (
        "what was tried comes first"
    )


def test_settings_that_join_name_the_first_call_and_a_verb_once() -> None:
    def setting(text: str) -> CallCure:
        return CallCure(CureKind.SETTING, DEF.path, 1, text=text)

    first, again = (setting(f"Add {name} before the first call") for name in ("print to p", "log to q"))
    once, tensor = setting("Set r = True before the first call"), setting("Pass `k` as a tensor")
    assert together((first, again)).text == "Add print to p and log to q before the first call"
    assert together((once, again)).text == "Set r = True and add log to q before the first call"
    assert together((once, tensor)).text == "Pass `k` as a tensor and set r = True before the first call"
    assert together((tensor, setting("Call h once"))).text == "Pass `k` as a tensor and call h once"


def test_two_settings_are_not_advised_where_one_of_them_saves_as_much() -> None:
    broke = Break("0/0", ("GB0036",), ("Dynamic shape operator",), (at(22),))
    shapes, both = findings(report(breaks=(broke,)))[0].cures
    assert shapes.settings.items() < both.settings.items()
    for after, shown in ((0, [shapes]), (1, [both, shapes])):
        trials = (CureTrial(shapes, 2, after), CureTrial(both, 2, 0))
        (finding,) = findings(report(breaks=(broke,), trials=trials))
        assert [item.cure for item in finding.remedies if item.state is RemedyState.TRIED] == shown


def test_a_setting_is_no_part_of_another_kind_of_change() -> None:
    """A tensor that saves as much hid the setting that was tried."""
    broke = Break("0/0", ("GB0036",), ("Dynamic shape operator",), (at(22),))
    shapes, both = findings(report(breaks=(broke,)))[0].cures
    tensor = replace(shapes, kind=CureKind.TENSOR, value="", subjects=("L['n']",))
    trials = (CureTrial(tensor, 2, 0), CureTrial(shapes, 2, 1), CureTrial(both, 2, 0))
    (finding,) = findings(report(breaks=(broke,), trials=trials))
    assert [item.cure for item in finding.remedies if item.state is RemedyState.TRIED] == [both, shapes]


@pytest.mark.parametrize("value", ["", "x", "[]", "7", "[" * 900])
def test_settings_of_a_damaged_trial_are_none(value: str) -> None:
    assert CallCure(CureKind.SETTING, DEF.path, DEF.line, value=value).settings == {}


def test_a_size_and_a_number_are_one_step() -> None:
    alone = finding_of(SIZE, number("n")).cures
    parts = [cure for cure in alone if cure.subjects]
    trials = (*(CureTrial(cure, 3, 3, "as many") for cure in alone), CureTrial(together(parts), 3, 1))
    assert finding_of(SIZE, number("n"), trials=trials).hints == (
        (
            "Pass `n` as a tensor and mark the size as dynamic before the call: "
            "torch._dynamo.mark_dynamic(x, 0) (tried: 3 → 1 compiles, none of them helps alone). "
            "Kernels for dynamic sizes can be slower"
        ),
    )


def test_changes_for_two_findings_are_said_of_both_and_hide_what_is_not_needed() -> None:
    """Beside them stands no expectation: that is for where nothing helps."""
    given = (again(SIZE), again(number("n"), compile_id="0/2"))
    size, count = findings(report(recompiles=given))
    mark, tensor = (item.cures[0] for item in (size, count))
    alone = tuple(CureTrial(cure, 3, 3, "there are still 3 compiles") for cure in (mark, tensor))
    setting = replace(tensor, kind=CureKind.SETTING, subjects=(), value='{"a": true}')
    text = "Mark `x`, and pass `n` as a tensor"
    both = CureTrial(replace(mark, also=(tensor,), text=text, cost="It copies"), 3, 1)
    more = replace(both, cure=replace(mark, also=(tensor, setting), text="All three"))
    shown = f"{text} (tried: 3 → 1 compiles, none of them helps alone). It copies"
    for finding in findings(report(recompiles=given, trials=(*alone, more, both))):
        assert finding.hints == (shown,)
    refused = replace(both, refused="the results differ")
    for finding in findings(report(recompiles=given, trials=(*alone, refused))):
        assert not any("tried:" in hint for hint in finding.hints)


def test_what_no_user_can_reach_is_not_advised() -> None:
    inside = replace(DEF, path="/env/site-packages/library/model.py")
    hidden = replace(number("kwargs['logits']"), expression="L['kwargs']['logits']")
    (finding,) = findings(report(recompiles=(again(hidden, location=inside, caller=(at(30),)),)))
    assert CureKind.TENSOR not in {cure.kind for cure in finding.cures}


@pytest.mark.parametrize(
    ("gb", "explanation", "context", "values"),
    [
        (
            "GB0059",
            "Dynamo does not know how to trace builtin operator `print` with argument types ['Size']",
            "builtin print",
            ['{"reorderable_logging_functions": ["builtins.print"]}'],
        ),
        (
            "GB0059",
            "Dynamo does not know how to trace builtin operator `open` with argument types []",
            "",
            [],
        ),
        (
            "GB0007",
            "Dynamo does not know how to trace the Python builtin `_warnings.warn`.",
            "module: _warnings, qualname: warn, skip reason: none",
            [
                '{"reorderable_logging_functions": ["warnings.warn"]}',
                '{"ignore_logging_functions": ["warnings.warn"]}',
            ],
        ),
        (
            "GB0291",
            "logging.Logger methods are not supported for non-export cases.",
            "method: <Logger net (INFO)>.info, args: [], kwargs: {}",
            ['{"ignore_logging_functions": ["logging.Logger.info"]}'],
        ),
        # What asks for a level or for a handler shows no message: code that lost its result would go another way.
        *(
            (
                "GB0291",
                "logging.Logger methods are not supported for non-export cases.",
                f"method: <Logger net (INFO)>.{method}, args: [`int`], kwargs: {{}}",
                [],
            )
            for method in ("isEnabledFor", "hasHandlers", "getEffectiveLevel", "_log")
        ),
    ],
)
def test_a_setting_for_messages_is_tried_in_place_of_the_hint_of_torch(
    gb: str, explanation: str, context: str, values: list[str]
) -> None:
    hint = "If you are attempting to call a logging function, you can try adding it to {}."
    hints = tuple(hint.format(name) for name in ("reorderable_logging_functions", "ignore_logging_functions"))
    broken = Break("", (gb,), ("",), (at(22),), explanation=explanation, context=context, hints=hints)
    (finding,) = findings(report(breaks=(broken,)))
    assert [cure.value for cure in finding.cures] == values
    trials = tuple(CureTrial(cure, 2, 2, "the line breaks the graph all the same") for cure in finding.cures)
    (tried,) = findings(report(breaks=(broken,), trials=trials))
    names = {name for cure in finding.cures for name in cure.settings}
    assert not any(name in text for name in names for text in tried.hints)


def test_each_break_of_a_line_has_the_changes_that_help_there_only_together() -> None:
    item = Break("", ("GB0124",), ("",), (at(22),))
    hint = "Try adding `logging.Logger.info` to `torch._dynamo.config.ignore_logging_functions`."
    message = Break("", ("GB0291",), ("",), (at(22),), hints=(hint,))
    scalars = next(cure for finding in findings(report(breaks=(item, message))) for cure in finding.cures)
    ignored = replace(scalars, value='{"ignore_logging_functions": ["logging.Logger.info"]}')
    trial = CureTrial(together((scalars, ignored)), 2, 0)
    shown = findings(report(breaks=(item, message), trials=(trial,)))
    assert sorted(finding.code for finding in shown) == ["GB0124", "GB0291"]
    for finding in shown:
        assert "(tried: 2 → 0 graph breaks" in finding.hints[0]
        assert not any("ignore_logging_functions" in text for text in finding.hints[1:])


def test_a_message_of_a_function_that_is_traced_into_is_not_shown_after_the_graph() -> None:
    text = "Dynamo does not know how to trace builtin operator `print` with argument types ['Size']"
    hint = "If you are attempting to call a logging function, you can try adding it to reorderable_logging_functions."
    broken = Break("", ("GB0059",), ("",), (at(20), at(22)), explanation=text, hints=(hint,))
    (finding,) = findings(report(breaks=(broken,)))
    assert (finding.cures, finding.hints) == ((), ("Move this call outside the compiled code, or remove it",))
    assert INLINED in finding.data


@pytest.mark.parametrize(
    ("was", "now", "rounded"),
    [
        ("0.5", "0.25", ""),
        ("0.1", "0.5", "0.1"),
        ("0.5", "0.3", "0.3"),
        ("1e300", "0.5", "1e300"),
        ("nan", "inf", ""),
        ("3", "16777217", ""),
        ("True", "False", ""),
    ],
)
def test_a_float_that_a_tensor_rounds_is_named(was: str, now: str, rounded: str) -> None:
    cause = GuardCause.VALUE if was == "True" else GuardCause.NUMBER
    value = number("lr", was=was, now=now, cause=cause)
    tensor = finding_of(value).cures[0]
    assert tensor.kind is CureKind.TENSOR
    (hint,) = finding_of(value, trials=(CureTrial(tensor, 3, 1),)).hints
    cost = (
        f". A float32 tensor rounds its values, such as `{rounded}`; a float64 tensor keeps them"
        if rounded
        else ""
    )
    assert hint == f"Pass `lr` as a tensor (tried: 3 → 1 compiles){cost}"


def test_a_change_that_keeps_a_function_below_the_recompile_limit_says_so() -> None:
    """Up to a limit of 8, the counts hide that each further call compiles, or runs in eager mode."""
    tensor = finding_of(number("lr", was="0.5", now="0.25")).cures[0]
    trial = CureTrial(tensor, 8, 7, frees_limit=True)
    (hint,) = finding_of(number("lr", was="0.5", now="0.25"), trials=(trial,)).hints
    assert hint == "Pass `lr` as a tensor (tried: 8 → 7 compiles, and then no call in eager mode)"


def sampled(*, trials: tuple[CureTrial, ...] = ()) -> Finding:
    """A float and an integer that changed together; the finding is about the float."""
    sigma = replace(number("sigma"), was="0.5", now="0.25")
    return finding_of(sigma, replace(number("t"), was="3", now="4"), trials=trials)


def test_changes_that_leave_fewer_compiles_together_stand_before_one_of_them() -> None:
    sigma, other, dynamic = sampled().cures
    assert [cure.kind for cure in (sigma, other, dynamic)] == [
        CureKind.TENSOR,
        CureKind.TENSOR,
        CureKind.DYNAMIC,
    ]
    joint = CureTrial(together((sigma, dynamic)), 4, 1)
    hints = sampled(trials=(CureTrial(sigma, 4, 3), joint)).hints
    assert hints == (
        (
            "Pass `sigma` as a tensor and compile with torch.compile(..., dynamic=True) (tried: 4 → 1 compiles). "
            "Kernels for dynamic sizes can be slower"
        ),
    )
    assert len(sampled(trials=(CureTrial(sigma, 4, 1), joint)).hints) == 1


def test_one_change_for_several_values_is_said_once() -> None:
    """As `dynamic=True` where a list of tensors is longer, and their sizes are others, too."""
    length = failed("len(parts) was 2, now 3", source="parts", cause=GuardCause.LENGTH)
    sizes = [failed(f"{name}.size(0) was 4, now 7", source=name) for name in ("parts[0]", "parts[1]", "ends")]
    cures = finding_of(length, *sizes).cures
    dynamic = next(cure for cure in cures if cure.kind is CureKind.DYNAMIC)
    finding = finding_of(length, *sizes, trials=(CureTrial(dynamic, 6, 5),))
    assert sum("dynamic=True" in hint for hint in finding.hints) == 1


def test_a_change_for_another_value_is_shown_before_one_that_saves_less() -> None:
    cures = sampled().cures
    own, dynamic = cures[0], next(cure for cure in cures if cure.kind is CureKind.DYNAMIC)
    assert sampled(trials=(CureTrial(own, 4, 3), CureTrial(dynamic, 4, 2))).hints == (
        (
            "Compile with torch.compile(..., dynamic=True) (tried: 4 → 2 compiles). "
            "Kernels for dynamic sizes can be slower"
        ),
        "Or pass `sigma` as a tensor (tried: 4 → 3 compiles)",
    )


@pytest.mark.parametrize("failure", ["number", "switch"])
def test_a_tensor_that_no_trial_could_put_in_place_is_not_named(failure: str) -> None:
    """As an index, or as the condition of a branch, it breaks the graph."""
    switch = failed("self.on was False, now True", source="self.on", cause=GuardCause.VALUE)
    changed = number() if failure == "number" else switch
    tensor, *_ = finding_of(changed).cures
    assert any("as a tensor" in text for text in untried(finding_of(changed)))
    of_none = CureTrial(tensor, 0, 0, NOT_APPLIED, is_made=False)
    assert not any("as a tensor" in hint for hint in finding_of(changed, trials=(of_none,)).hints)
