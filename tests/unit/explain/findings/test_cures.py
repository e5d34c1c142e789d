"""Which changes are to be tried for a failed guard, what is said of those that were, and when a run shows a cure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fuselight.shared.report import (
    Break,
    CallCure,
    Compile,
    Culprit,
    CureGoal,
    CureKind,
    CureTrial,
    Failure,
    Frame,
    Graph,
    Guard,
    GuardCause,
    GuardFailure,
    NotCompiled,
    NotCompiledKind,
    Outcome,
    Problem,
    Report,
    Symbol,
    TrialCounts,
)
from fuselight_server.base.finding import Finding
from fuselight_server.base.remedies import NO_CALL, RemedyState
from fuselight_server.explain.findings import findings
from fuselight_server.explain.findings.advice.break_cures import INLINED
from fuselight_server.explain.findings.advice.trial_verdict import NOT_APPLIED, trial_of
from fuselight_server.explain.findings.common.compiled_callers import outer_frame
from tests.support.recompilations import DEF, SIZE, WHOLE, again, failed, untried
from tests.support.reports import FILE, at, report


def number(source: str = "self.limit", **changes: Any) -> GuardFailure:
    expression = (
        f"L['self'].{source.removeprefix('self.')}" if source.startswith("self.") else f"L[{source!r}]"
    )
    failure = failed(f"{source} was 2, now 3", kind="EQUALS_MATCH", source=source)
    return replace(failure, expression=expression, **changes)


def finding_of(*failures: GuardFailure, trials: tuple[CureTrial, ...] = ()) -> Finding:
    (finding,) = findings(report(recompiles=(again(*failures),), trials=trials))
    return finding


@pytest.mark.parametrize(
    ("failure", "kinds"),
    [
        (number("n"), [CureKind.TENSOR, CureKind.DYNAMIC]),
        (number(), [CureKind.TENSOR, CureKind.SETTING, CureKind.DYNAMIC]),
        (number("self.size"), [CureKind.TENSOR, CureKind.SETTING, CureKind.DYNAMIC]),
        (replace(number(), was="0.5", now="0.7"), [CureKind.TENSOR]),
        (replace(number(), difference="len(self.limit) was 2, now 3"), [CureKind.TENSOR]),
        (SIZE, [CureKind.MARK, CureKind.DYNAMIC]),
        (failed("x.size(0) was 4, now 1"), []),
    ],
)
def test_the_changes_to_try_are_those_of_the_kind_of_guard(
    failure: GuardFailure, kinds: list[CureKind]
) -> None:
    assert [cure.kind for cure in finding_of(failure).cures] == kinds


def test_a_change_that_was_not_tried_is_counted_and_no_advice() -> None:
    """Nor is it said that nothing helps: `dynamic=True` alone is left out, as it keeps no integer of a module."""
    finding = finding_of(number())
    assert finding.hints == ("2 possible changes are not tried yet",)
    assert untried(finding) == (
        "Keep `self.limit` as a tensor",
        (
            "Set torch._dynamo.config.allow_unspec_int_on_nn_module = True before the first call, which keeps ints of "
            "modules symbolic"
        ),
    )
    assert finding_of(replace(number("n"), was="0.5", now="0.7")).hints == (
        "1 possible change is not tried yet",
    )


USES = """\
def forward(self, x, n):
    return {}
"""


@pytest.mark.parametrize(
    ("used", "is_named"),
    [
        ("x * n", True),
        ("torch.where(x < n, x, 0)", True),
        ("x if n > 1 else -x", False),
        ("x[:, n:]", False),
        ("x * torch.normal(0.0, n, x.shape)", False),
        ("huber_loss(x, x, delta=n)", False),
        ("x if x is None or n else -x", False),
        ("x * (not n)", False),
    ],
)
def test_a_tensor_is_not_named_where_the_code_needs_a_number(used: str, *, is_named: bool) -> None:
    """A trial of it is still made, after all others, and shown if it cures."""
    lines = dict(enumerate(USES.format(used).splitlines(), 20))
    given = again(number("n", born=(at(21, (11, 20), function="forward"),)))

    def finding(*trials: CureTrial) -> Finding:
        (item,) = findings(
            report(recompiles=(given,), trials=trials), read_line=lambda _path, line: lines.get(line)
        )
        return item

    assert ("Pass `n` as a tensor" in untried(finding())) is is_named
    (tensor,) = (cure for cure in finding().cures if cure.kind is CureKind.TENSOR)
    assert (finding().cures[-1] == tensor) is not is_named
    assert (
        finding(CureTrial(tensor, 3, 1)).hints[0].startswith("Pass `n` as a tensor (tried: 3 → 1 compiles)")
    )


def test_a_size_that_a_line_needs_is_not_marked_before_a_trial() -> None:
    """torch raises an exception for such a mark, and `dynamic=True` does not free the size."""
    fixed = Symbol("s0", "x.size(0)", specialized_to="4", stack=(at(22, (8, 14)),))
    compiled = Compile("0/1", 0, Outcome.COMPILED, symbols=(fixed,))
    (held, free) = (
        next(item for item in findings(given) if item.code == "FL201")
        for given in (
            report(frames=(WHOLE,), compiles=(compiled,), recompiles=(again(SIZE),)),
            report(frames=(WHOLE,), compiles=(replace(compiled, symbols=()),), recompiles=(again(SIZE),)),
        )
    )
    assert untried(held) == ()
    assert [text.partition(":")[0] for text in untried(free)] == [
        "Mark the size as dynamic before the call",
        "Compile with torch.compile(..., dynamic=True)",
    ]


def test_a_setting_for_modules_is_not_named_for_an_integer_that_torch_made_dynamic() -> None:
    dynamic = Compile("0/1", 0, Outcome.COMPILED, symbols=(Symbol("s0", "self.limit"),))
    (finding,) = findings(report(frames=(WHOLE,), compiles=(dynamic,), recompiles=(again(number()),)))
    assert untried(finding) == (
        "Keep `self.limit` as a tensor",
        "Compile with torch.compile(..., dynamic=True)",
    )


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
    trials = tuple(
        CureTrial(cure, 3, 3, "there are as many compiles: 3") for cure in finding_of(number()).cures
    )
    assert finding_of(number(), trials=trials).hints == ("Expect one compile for each value of `self.limit`",)


@pytest.mark.parametrize("failure", [number("n"), number(), SIZE, failed("x.size(0) was 4, now 1")])
@pytest.mark.parametrize(
    "message", ["Hit the recompile limit with fullgraph=True", "Recompile limit reached"]
)
def test_a_limit_that_ends_the_call_has_the_changes_of_one_that_does_not(
    failure: GuardFailure, message: str
) -> None:
    """What the advice names is what a trial tries, and its result replaces the advice."""
    stopped = again(failure, compile_id=None, location=DEF)
    error = Failure(
        Culprit.USER, "recompile_limit", message, exception="FailOnRecompileLimitHit", stack=(at(40),)
    )
    limit = NotCompiled(NotCompiledKind.RECOMPILE_LIMIT, "Net.forward", DEF, "limit reached (8)")
    error = replace(error, call=stopped.call)
    (ends,) = (
        item for item in findings(report(recompiles=(stopped,), failures=(error,))) if item.code == "FL102"
    )
    (goes_on,) = (
        item
        for item in findings(report(recompiles=(stopped,), not_compiled=(limit,)))
        if item.code == "FL102"
    )
    assert ends.cures == goes_on.cures == finding_of(failure).cures
    trials = tuple(CureTrial(cure, 5, 2) for cure in ends.cures)
    tried = findings(report(recompiles=(stopped,), failures=(error,), trials=trials))
    hints = [hint for item in tried for hint in item.hints]
    assert not any("not tried yet" in hint for hint in hints)
    assert any("(tried: 5 → 2 compiles)" in hint for hint in hints) == bool(trials)


def test_several_changes_are_advised_where_none_of_them_saves_as_much_alone() -> None:
    first, second = (
        replace(number("low"), was="0.1", now="0.2"),
        replace(number("high"), was="0.9", now="0.8"),
    )
    low, together, high = finding_of(first, second).cures
    assert together.changes == (low, high)
    assert finding_of(first, second, trials=(CureTrial(together, 3, 1),)).hints == (
        (
            "Pass `low` and `high` as tensors (tried: 3 → 1 compiles). "
            "A float32 tensor rounds its values, such as `0.1`; a float64 tensor keeps them"
        ),
    )
    refused = (CureTrial(low, 3, 3, "as many"), CureTrial(high, 3, 2), CureTrial(together, 3, 2))
    hints = finding_of(first, second, trials=refused).hints
    assert hints[0].startswith("Pass `high` as a tensor (tried: 3 → 2 compiles)"), (
        "what was tried comes first"
    )


def test_two_settings_are_not_advised_where_one_of_them_saves_as_much() -> None:
    broke = Break("0/0", ("GB0036",), ("Dynamic shape operator",), (at(22),))
    shapes, both = findings(report(breaks=(broke,)))[0].cures
    assert shapes.settings.items() < both.settings.items()
    for after, shown in ((0, [shapes]), (1, [both, shapes])):
        trials = (CureTrial(shapes, 2, after), CureTrial(both, 2, 0))
        (finding,) = findings(report(breaks=(broke,), trials=trials))
        assert [item.cure for item in finding.remedies if item.state is RemedyState.TRIED] == shown


@pytest.mark.parametrize(
    ("operator", "is_asked"),
    [("nonzero", True), ("masked_select", True), ("_local_scalar_dense", False), ("histc", False)],
)
def test_the_setting_for_shapes_is_tried_where_a_backend_needs_the_shape(
    operator: str, *, is_asked: bool
) -> None:
    """The mask of an assignment breaks the graph in the backend, which needs its positions for the gradient."""
    text = f"Backend compiler `aot_eager` failed with aten.{operator}.default. Adding a graph break."
    broke = Break("0/0", ("GB0219",), ("Backend compiler exception",), (at(22),), explanation=text)
    settings = [name for cure in findings(report(breaks=(broke,)))[0].cures for name in cure.settings]
    assert ("capture_dynamic_output_shape_ops" in settings) is is_asked


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


def test_a_method_of_the_same_name_above_it_is_not_the_caller() -> None:
    """Two classes of a file have a `forward` each: the one whose lines the call is in leads to the compiled code."""
    first, second = (
        Frame(f"{name}.forward", replace(DEF, line=line, function=None))
        for name, line in (("A", 3), ("B", 30))
    )
    for function in ("B.forward", "forward"):
        caller = (replace(DEF, line=35, function=function),)
        assert outer_frame(report(frames=(first, second)), again(number("n"), caller=caller)) == second


def test_a_size_and_a_number_are_one_step() -> None:
    trials = tuple(
        CureTrial(cure, 3, 1 if cure.also else 3, "" if cure.also else "as many")
        for cure in finding_of(SIZE, number("n")).cures
    )
    assert finding_of(SIZE, number("n"), trials=trials).hints == (
        (
            "Pass `n` as a tensor and mark the size as dynamic before the call: "
            "torch._dynamo.mark_dynamic(x, 0) (tried: 3 → 1 compiles). Kernels for dynamic sizes can be slower"
        ),
    )


CURE = CallCure(CureKind.TENSOR, DEF.path, DEF.line, ("L['n']",))
LINES = ((at(21),), (at(22),))


def run(compiles: int, *, runs: int = 6, lines: Any = LINES, **changes: Any) -> Report:
    """A run with so many compiles of the function, whose graphs ran `runs` times in all."""
    compiled = tuple(
        Compile(f"0/{index}", 0, Outcome.COMPILED, graph=Graph(len(lines), lines=lines))
        for index in range(compiles)
    )
    counts = {"0/0": runs - compiles + 1, **{f"0/{index}": 1 for index in range(1, compiles)}}
    trial = changes.pop("trial", TrialCounts(calls=6, graph_runs=counts, changed=6))
    return report(frames=(Frame("Net.forward", DEF),), compiles=compiled, trial=trial, **changes)


BREAK = Break("0/0", ("GB0170",), ("data dependent",), (at(22),))
EAGER = NotCompiled(NotCompiledKind.SKIPPED, "helper", at(50), "skipped")
ERROR = Failure(Culprit.USER, "exception", "no such size", exception="IndexError")


def test_the_read_of_a_dynamic_float_is_not_lost() -> None:
    def with_reads(compiles: int, *targets: str) -> Report:
        graph = Graph(len(targets), lines=((at(21),),) * len(targets), targets=targets)
        return replace(
            run(compiles), compiles=tuple(replace(item, graph=graph) for item in run(compiles).compiles)
        )

    assert trial_of(CURE, with_reads(2, "item", "mul"), with_reads(1, "mul")).cures
    assert not trial_of(CURE, with_reads(2, "sin", "mul"), with_reads(1, "mul")).cures


@pytest.mark.parametrize(
    ("cured", "refused"),
    [
        (run(1), ""),
        (run(3), "as many compiles"),
        (run(1, runs=5), "line 21 then runs outside of graphs"),
        (run(1, lines=LINES[:1]), "line 22 then runs outside of graphs"),
        (run(1, breaks=(BREAK,)), "breaks the graph on line 22"),
        (run(1, not_compiled=(EAGER,)), "`helper` is then not compiled"),
        (run(1, failures=(ERROR,)), "then fails: IndexError"),
        (run(1, trial=None), "ended early"),
        (run(1, trial=TrialCounts(6, {"0/0": 6}, changed=0)), "no call"),
        (run(1, trial=TrialCounts(6, {"0/0": 6}, 6, "a str is not a number")), "cannot be applied: a str"),
        (run(1, trial=TrialCounts(4, {"0/0": 6}, 6)), "other calls"),
    ],
)
def test_a_cure_saves_compiles_and_loses_nothing(cured: Report, refused: str) -> None:
    trial = trial_of(CURE, run(3), cured)
    assert trial.cures == (not refused)
    assert refused in trial.refused
    assert (trial.before, trial.after) == (3, len(cured.compiles))


@pytest.mark.parametrize(
    "other",
    [
        number("self.window"),
        # A relation is the same one, whatever torch writes for the values of its line that are dynamic now.
        replace(failed("n % 3 != 0 no longer holds", cause=GuardCause.RELATION), born=(at(27),)),
    ],
)
def test_a_change_that_saves_the_compile_of_another_guard_is_advised_for_that_one_alone(
    other: GuardFailure,
) -> None:
    mine = number()
    now = replace(other, code="n % d != 0") if other.cause is GuardCause.RELATION else other
    without = replace(run(3), recompiles=(again(mine, compile_id="0/1"), again(other, compile_id="0/2")))
    cured = replace(run(2), recompiles=(again(now, compile_id="0/1"),))
    dynamic = next(cure for cure in finding_of(mine).cures if cure.kind is CureKind.DYNAMIC)
    trial = trial_of(dynamic, without, cured)
    assert trial.cures
    own, others = findings(replace(without, trials=(trial,)))
    assert own.hints[0].startswith("Compile with torch.compile(..., dynamic=True) (tried: 3 → 2 compiles)")
    assert not any("tried:" in hint for hint in others.hints)
    refused = [remedy.why for remedy in others.remedies if remedy.state is RemedyState.REFUSED]
    assert refused == ["it saves another recompilation, and this one stays"]


@pytest.mark.parametrize(
    ("was", "now", "refused"),
    [
        ({"self.n": "1"}, {"self.n": "a tensor"}, ""),
        ({"self.parts[0].n": "1"}, {"self.parts[0].n": "a tensor"}, ""),
        ({"self.m": "1"}, {"self.m": "a tensor"}, "`self.m` is then a tensor"),
        ({"self.m": "1"}, {"self.m": "2"}, "`self.m` is then another value"),
        ({"the keys of seen": "1: 1"}, {"the keys of seen": "2: 1, 2"}, "`seen` then has other keys"),
        ({"the length of n": "1"}, {"the length of n": "2"}, ""),
        ({"the length of rows": "1"}, {}, "`rows` then has another length"),
    ],
)
def test_a_number_that_becomes_a_tensor_leaves_the_same_state(
    was: dict[str, str], now: dict[str, str], refused: str
) -> None:
    def with_state(compiles: int, state: dict[str, str]) -> Report:
        return run(compiles, trial=TrialCounts(6, {"0/0": 6}, 6, state=state))

    without, cured = with_state(3, was), with_state(1, now)
    assert trial_of(CURE, without, cured).refused == refused
    dynamic = replace(CURE, kind=CureKind.DYNAMIC, subjects=(), value="True")
    assert trial_of(dynamic, without, cured).refused == ""


def test_what_no_user_can_reach_is_not_advised() -> None:
    inside = replace(DEF, path="/env/site-packages/library/model.py")
    hidden = replace(number("kwargs['logits']"), expression="L['kwargs']['logits']")
    (finding,) = findings(report(recompiles=(again(hidden, location=inside, caller=(at(30),)),)))
    assert CureKind.TENSOR not in {cure.kind for cure in finding.cures}


OUTER = Frame("step", replace(DEF, line=60), parameters=("x", "n"))
CALLER = (at(70, function="main"), at(62, function="step"))


def inner(failure: GuardFailure) -> Report:
    """A function that `step` calls was compiled again by itself."""
    compiled = Compile("0/0", 0, Outcome.COMPILED)
    return report(
        frames=(OUTER, Frame("helper", DEF)),
        compiles=(compiled,),
        recompiles=(again(failure, location=DEF, function="helper", caller=CALLER),),
    )


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (number("n"), "Pass `n` to `step` as a tensor"),
        (number(), "Keep `self.limit` as a tensor"),
        (SIZE, "Mark the size as dynamic before the call to `step`: torch._dynamo.mark_dynamic(x, 0)"),
    ],
)
def test_what_compiled_code_passes_on_is_changed_in_the_calls_of_the_user(
    failure: GuardFailure, text: str
) -> None:
    (finding,) = findings(inner(failure))
    assert text in untried(finding)
    (changed,) = {(cure.outer_path, cure.outer_line) for cure in finding.cures if cure.subjects}
    assert changed == (OUTER.location.path, OUTER.location.line)


def test_a_size_that_no_call_passes_is_not_marked_inside_compiled_code() -> None:
    renamed = replace(SIZE, source="hidden", sizes=tuple(replace(size, name="hidden") for size in SIZE.sizes))
    (finding,) = findings(inner(renamed))
    assert CureKind.MARK not in {cure.kind for cure in finding.cures}


@pytest.mark.parametrize(
    ("call", "is_marked"),
    [
        ("y = helper(x, n)", True),
        ("y = helper(n=n, x=x)", True),
        ("y = helper(x[keep], n)", False),
        ("y = helper(other, n)", False),
        ("y = x + 1", True),
    ],
)
def test_a_size_is_marked_only_where_the_call_hands_the_tensor_on(call: str, *, is_marked: bool) -> None:
    source = {60: "def step(x, n):", 61: "    keep = x > 0", 62: f"    {call}", 63: "    return y"}
    (finding,) = findings(inner(SIZE), read_line=lambda _path, line: source.get(line))
    assert (CureKind.MARK in {cure.kind for cure in finding.cures}) is is_marked


@pytest.mark.parametrize(
    ("guards", "is_stacked"),
    [
        ({}, True),
        ({"parts[0]": "TENSOR_MATCH"}, True),
        ({"parts[0]": "EQUALS_MATCH", "parts[1]": "TENSOR_MATCH"}, True),
        ({"parts[0]": "EQUALS_MATCH"}, False),
        ({"parts[-1]": "TYPE_MATCH"}, False),
        ({"parts[0].x": "EQUALS_MATCH", "others[0]": "CONSTANT_MATCH"}, True),
    ],
)
def test_only_a_list_that_may_hold_tensors_is_stacked(guards: dict[str, str], *, is_stacked: bool) -> None:
    length = failed("len(parts) was 2, now 3", "LENGTH_CHECK", "parts", cause=GuardCause.LENGTH)
    compiled = Compile(
        "0/1", 0, Outcome.COMPILED, guards=tuple(Guard(kind, source, ()) for source, kind in guards.items())
    )
    (finding,) = findings(report(frames=(WHOLE,), compiles=(compiled,), recompiles=(again(length),)))
    assert (CureKind.STACK in {cure.kind for cure in finding.cures}) is is_stacked


def test_what_no_program_with_such_values_can_change_is_refused_and_not_left_untried() -> None:
    cure = CallCure(CureKind.STACK, FILE, DEF.line, ("parts",))

    def tried(*, is_unfit: bool) -> CureTrial:
        cured = run(3)
        assert cured.trial is not None
        counts = replace(cured.trial, refused="its elements are not tensors", is_unfit=is_unfit)
        return trial_of(cure, run(3), replace(cured, trial=counts))

    assert [(tried(is_unfit=unfit).is_made, tried(is_unfit=unfit).cures) for unfit in (True, False)] == [
        (True, False),
        (False, False),
    ]


@pytest.mark.parametrize(
    ("source", "was", "now", "is_tried"),
    [
        ("token", "a normal tensor", "an inference tensor", True),
        ("token", "an inference tensor", "a normal tensor", True),
        ("token", "a normal tensor", "a lazily conjugated tensor", False),
        ("self.state", "a normal tensor", "an inference tensor", False),
    ],
)
def test_a_tensor_of_inference_mode_is_created_in_it(
    source: str, was: str, now: str, *, is_tried: bool
) -> None:
    failure = failed(
        f"{source} was {was}, now {now}", source=source, cause=GuardCause.DISPATCH, was=was, now=now
    )
    (finding,) = findings(report(recompiles=(again(failure),)))
    assert [cure.kind for cure in finding.cures] == [CureKind.INFERENCE] * is_tried


def test_what_torch_makes_of_a_numpy_array_is_not_marked() -> None:
    array = replace(SIZE, expression=f"___from_numpy(L['{SIZE.source}'])")
    kinds = [
        {cure.kind for cure in finding.cures}
        for failure in (SIZE, array)
        for finding in findings(report(recompiles=(again(failure),)))
    ]
    assert kinds == [{CureKind.MARK, CureKind.DYNAMIC}, {CureKind.DYNAMIC}]


def test_a_setting_that_only_moves_a_break_is_no_cure() -> None:
    cure = CallCure(CureKind.SETTING, FILE, 22, value='{"capture": true}', goal=CureGoal.BREAKS)
    other, again_other = (replace(BREAK, stack=(at(23),), compile_id=name) for name in ("0/0", "1/0"))
    moved = trial_of(cure, run(1, breaks=(BREAK, other)), run(1, breaks=(other, again_other)))
    assert (moved.before, moved.after, moved.refused) == (2, 2, "other lines then break the graph more often")
    assert trial_of(cure, run(1, breaks=(BREAK, other)), run(1, breaks=(other,))).cures


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
    trials = tuple(CureTrial(cure, 2, 2, "there are as many graph breaks: 2") for cure in finding.cures)
    (tried,) = findings(report(breaks=(broken,), trials=trials))
    names = {name for cure in finding.cures for name in cure.settings}
    assert not any(name in text for name in names for text in tried.hints)


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


def sampled(*, trials: tuple[CureTrial, ...] = ()) -> Finding:
    """A float and an integer that changed together; the finding is about the float."""
    sigma = replace(number("sigma"), was="0.5", now="0.25")
    return finding_of(sigma, replace(number("t"), was="3", now="4"), trials=trials)


def test_two_kinds_of_changes_are_tried_together() -> None:
    cures = sampled().cures
    kinds = [tuple(part.kind for part in cure.changes) for cure in cures]
    tensor, dynamic = CureKind.TENSOR, CureKind.DYNAMIC
    assert kinds == [(tensor,), (tensor, tensor), (tensor, dynamic), (tensor,), (dynamic,)]
    hints = sampled(trials=(CureTrial(cures[0], 4, 3), CureTrial(cures[2], 4, 1))).hints
    assert hints[0] == (
        "Pass `sigma` as a tensor and compile with torch.compile(..., dynamic=True) (tried: 4 → 1 compiles). "
        "Kernels for dynamic sizes can be slower"
    )


def test_a_change_for_another_value_is_shown_before_one_that_saves_less() -> None:
    cures = sampled().cures
    own, dynamic = cures[0], next(cure for cure in cures if cure.kind is CureKind.DYNAMIC)
    assert sampled(trials=(CureTrial(own, 4, 3), CureTrial(dynamic, 4, 2))).hints == (
        (
            "For `t`: Compile with torch.compile(..., dynamic=True) (tried: 4 → 2 compiles). "
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


@pytest.mark.parametrize(
    ("difference", "words"),
    [
        (
            "mask.size(2) was 1, now 2; mask.size(3) was 1, now 2",
            (
                "there are as many compiles: 3, as mask.size(2) was 1, now 2 (by default, torch compiles a size of 0 "
                "or 1 separately, even a dynamic one)"
            ),
        ),
        ("x.size(0) was 4, now 7", "there are as many compiles: 3, as x.size(0) was 4, now 7"),
        ("self.hooks[list(self.hooks)[0]].calls was 0, now 1", "there are as many compiles: 3"),
    ],
)
def test_a_change_that_does_not_cure_says_what_the_function_is_compiled_again_for(
    difference: str, words: str
) -> None:
    dynamic = CallCure(CureKind.DYNAMIC, DEF.path, DEF.line, value="True")
    cured = replace(run(3), recompiles=(again(failed(difference)),))
    assert trial_of(dynamic, run(3), cured).refused == words
    elsewhere = replace(dynamic, line=DEF.line + 1)
    assert "as x.size" not in trial_of(elsewhere, run(3), cured).refused


def test_a_float_under_dynamic_false_may_vary_without_it() -> None:
    given = again(replace(number("scale"), was="0.5", now="0.7"))
    (finding,) = findings(report(recompiles=(given,), static_compiles=(at(63),)))
    assert untried(finding)[1:] == ("Remove dynamic=False from torch.compile (line 63)",)
