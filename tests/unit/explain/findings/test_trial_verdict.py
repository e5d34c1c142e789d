"""When the run of a trial shows a cure, and what is said of one that shows none."""

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
    GuardCause,
    GuardFailure,
    Mismatch,
    NotCompiled,
    NotCompiledKind,
    Outcome,
    Report,
    TrialCounts,
)
from fuselight_server.base.remedies import RemedyState
from fuselight_server.explain.findings import findings
from fuselight_server.explain.findings.advice.trial_verdict import trial_of
from fuselight_server.explain.findings.common.counts import counts
from tests.support.recompilations import DEF, WHOLE, again, failed, finding_of, number
from tests.support.reports import FILE, at, report

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


def with_reads(compiles: int, *targets: str) -> Report:
    """A run whose graphs have these nodes, all on one line; those of sizes and of numbers have names that say so."""
    numbers = tuple(
        index for index, target in enumerate(targets) if target in {"size", "item", "add of sizes"}
    )
    graph = Graph(len(targets), lines=((at(21),),) * len(targets), targets=targets, numbers=numbers)
    return replace(
        run(compiles), compiles=tuple(replace(item, graph=graph) for item in run(compiles).compiles)
    )


@pytest.mark.parametrize("reads", [("size",), ("size", "add of sizes"), ("add of sizes", "size", "size")])
def test_the_sizes_that_dynamic_code_reads_otherwise_are_not_lost(reads: tuple[str, ...]) -> None:
    assert trial_of(CURE, with_reads(2, *reads, "mul"), with_reads(1, "mul")).cures
    assert not trial_of(CURE, with_reads(2, *reads, "mul", "getitem"), with_reads(1, "mul")).cures
    assert not trial_of(CURE, with_reads(2, "getitem", *reads), with_reads(1, *reads)).cures


def test_the_read_of_a_dynamic_float_is_not_lost() -> None:
    assert trial_of(CURE, with_reads(2, "item", "torch.scalar_tensor", "mul"), with_reads(1, "mul")).cures
    assert not trial_of(CURE, with_reads(2, "sin", "mul"), with_reads(1, "mul")).cures


@pytest.mark.parametrize(
    ("cured", "refused"),
    [
        (run(1), ""),
        (run(3), "still 3 compiles"),
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


def test_a_change_that_saves_compiles_of_another_part_is_no_advice_for_one_that_has_as_many() -> None:
    """With sizes dynamic from the start, the part after a break fails at another guard for the same value."""
    whole, part = number("n"), failed("n was 9, now 13", source="n", cause=GuardCause.NUMBER)
    frames = (WHOLE, replace(WHOLE, resumes_at=25))
    compiles = [Compile(name, int(name[0]), Outcome.COMPILED) for name in ("0/0", "0/1", "1/0", "1/1")]
    entry = (Mismatch("1/0", (part,)),)
    both = (again(whole), again(compile_id="1/1", entries=entry))
    without = replace(run(4), frames=frames, compiles=tuple(compiles), recompiles=both)
    relation = replace(part, cause=GuardCause.RELATION, difference="n / 4 was 2, now 3")
    rest = again(compile_id="1/1", entries=(Mismatch("1/0", (relation,)),))
    cured = replace(without, compiles=tuple(compiles[:1] + compiles[2:]), recompiles=(rest,))
    dynamic = next(cure for cure in finding_of(whole).cures if cure.kind is CureKind.DYNAMIC)
    trial = trial_of(dynamic, without, cured)
    assert trial.cures
    shown = [item for item in findings(replace(without, trials=(trial,))) if item.code == "FL201"]
    assert [any("tried:" in hint for hint in item.hints) for item in shown] == [True, False]


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


def test_the_state_after_a_failure_that_a_change_removes_is_not_compared() -> None:
    """A loop goes on where the program failed: its variables have other values then."""

    def with_total(compiles: int, total: str, *failures: Failure) -> Report:
        counts = TrialCounts(6, {"0/0": 6}, 6, state={"total": total})
        return run(compiles, trial=counts, failures=failures)

    without = with_total(3, "1", ERROR)
    assert trial_of(CURE, without, with_total(1, "3")).cures
    other = replace(ERROR, message="another error")
    assert not trial_of(CURE, without, with_total(1, "3", other)).cures
    assert trial_of(CURE, without, with_total(1, "3", ERROR)).refused == "`total` is then another value"


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


def test_a_setting_that_only_moves_a_break_is_no_cure() -> None:
    cure = CallCure(CureKind.SETTING, FILE, 22, value='{"capture": true}', goal=CureGoal.BREAKS)
    other, again_other = (replace(BREAK, stack=(at(23),), compile_id=name) for name in ("0/0", "1/0"))
    moved = trial_of(cure, run(1, breaks=(BREAK, other)), run(1, breaks=(other, again_other)))
    assert moved.refused == "other lines then break the graph more often"
    assert trial_of(cure, run(1, breaks=(BREAK, other)), run(1, breaks=(other,))).cures


def test_a_function_that_is_then_skipped_is_lost_although_it_reached_the_limit_before() -> None:
    limited = NotCompiled(NotCompiledKind.RECOMPILE_LIMIT, "Net.forward", DEF, "limit")
    skipped = NotCompiled(NotCompiledKind.SKIPPED, "Net.forward", DEF, "skipped")
    without = run(8, runs=9, not_compiled=(limited,))
    assert trial_of(CURE, without, run(1, runs=9)).cures
    assert "is then not compiled" in trial_of(CURE, without, run(1, runs=9, not_compiled=(skipped,))).refused


@pytest.mark.parametrize(("further", "is_cured"), [(1, True), (2, True), (3, False), (5, False)])
def test_a_run_that_goes_on_may_compile_again_in_fewer_than_half_of_its_further_calls(
    further: int, *, is_cured: bool
) -> None:
    cure = CallCure(
        CureKind.SETTING, FILE, 22, value='{"capture_scalar_outputs": true}', goal=CureGoal.BREAKS
    )
    failing = run(1, breaks=(BREAK,), failures=(ERROR,), trial=TrialCounts(2, {"0/0": 2}))
    recompiles = tuple(again(number("n"), compile_id=f"0/{index}") for index in range(1, further + 1))
    trial = trial_of(cure, failing, run(further + 1, recompiles=recompiles))
    assert trial.cures is is_cured
    assert ("the run then goes on" in trial.refused) is not is_cured


def test_a_setting_with_which_torch_compiles_more_graphs_is_no_cure() -> None:
    cure = CallCure(CureKind.SETTING, FILE, 22, value='{"capture": true}', goal=CureGoal.BREAKS)
    assert trial_of(cure, run(2, breaks=(BREAK,)), run(2)).cures
    worse = trial_of(cure, run(2, breaks=(BREAK,)), run(5))
    assert worse.refused == "torch then compiles 5 graphs in place of 2"
    empty = tuple(Compile(f"1/{number}", 0, Outcome.COMPILED) for number in range(3))
    more = replace(run(2), compiles=(*run(2).compiles, *empty))
    assert trial_of(cure, run(2, breaks=(BREAK,)), more).cures, "code without operators costs little"


@pytest.mark.parametrize(
    ("left", "is_gone"),
    [
        pytest.param((), True, id="the recompilation goes with the break"),
        pytest.param((number(),), False, id="it stays"),
        pytest.param((number("self.window"),), False, id="it moved to another guard of the merged code"),
    ],
)
def test_a_recompilation_goes_with_a_break_only_where_the_trial_of_its_removal_shows_it(
    left: tuple[GuardFailure, ...], *, is_gone: bool
) -> None:
    cure = CallCure(CureKind.SETTING, FILE, 22, value='{"a": true}', goal=CureGoal.BREAKS, text="Set a")
    without = replace(run(2, breaks=(BREAK,)), recompiles=(again(number()),))
    trial = trial_of(cure, without, replace(run(1), recompiles=tuple(map(again, left))))
    assert trial.cures
    more = replace(without, recompiles=(*without.recompiles, again(number(), compile_id="0/2")))
    both = findings(replace(more, trials=(trial,)))
    assert not any("Remove the graph break" in hint for item in both for hint in item.hints), "one stays"
    (finding,) = (item for item in findings(replace(without, trials=(trial,))) if item.code == "FL201")
    assert any("Remove the graph break" in hint for hint in finding.hints) is is_gone
    if is_gone:
        first = "Remove the graph break on line 22: set a (tried: 1 → 0 recompilations)"
        assert finding.hints[0] == first


def test_a_setting_that_moves_the_break_of_another_function_is_no_objection() -> None:
    cure = CallCure(CureKind.SETTING, FILE, 22, value='{"capture": true}', goal=CureGoal.BREAKS)
    own = replace(BREAK, stack=(at(22, function="select"),))
    first, second = (replace(BREAK, stack=(at(line, function="branch"),)) for line in (32, 33))
    assert trial_of(cure, run(1, breaks=(own, first)), run(1, breaks=(second,))).cures
    refused = trial_of(cure, run(1, breaks=(own,)), run(1, breaks=(second,))).refused
    assert refused == "it breaks the graph on line 33"
    moved = replace(own, stack=(at(23, function="select"),))
    assert trial_of(cure, run(1, breaks=(own, first)), run(1, breaks=(moved,))).refused


def test_breaks_are_counted_as_in_the_summary_however_many_compiles_meet_them() -> None:
    cure = CallCure(CureKind.SETTING, FILE, 22, value='{"capture": true}', goal=CureGoal.BREAKS)
    line, other = (
        [replace(BREAK, stack=(at(number),), compile_id=f"{index}/0") for index in range(3)]
        for number in (22, 23)
    )
    without, cured = run(1, breaks=(*line, *other)), run(1, breaks=tuple(other))
    trial = trial_of(cure, without, cured)
    assert (trial.before, trial.after, counts(without).breaks, counts(cured).breaks) == (2, 1, 2, 1)
    fewer = trial_of(cure, without, run(1, breaks=(line[0], *other)))
    assert fewer.refused == "the line breaks the graph all the same"


@pytest.mark.parametrize(
    ("difference", "words"),
    [
        (
            "mask.size(2) was 1, now 2; mask.size(3) was 1, now 2",
            (
                "there are still 3 compiles; with it, torch compiles again because mask.size(2) was 1, now 2 (by "
                "default, torch compiles a size of 0 or 1 separately, even a dynamic one)"
            ),
        ),
        (
            "x.size(0) was 4, now 7",
            "there are still 3 compiles; with it, torch compiles again because x.size(0) was 4, now 7",
        ),
        ("self.hooks[list(self.hooks)[0]].calls was 0, now 1", "there are still 3 compiles"),
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


INNER = replace(BREAK, ids=("GB0098",), stack=(at(21),))


@pytest.mark.parametrize(
    ("cured", "refused"),
    [
        (run(1, lines=LINES[:1], breaks=(INNER,)), ""),
        (run(3, lines=LINES[:1], breaks=(INNER,)), "still 3 compiles"),
        (run(1, lines=LINES[1:], breaks=(INNER,)), "line 21 then runs outside of graphs"),
        (run(1, lines=LINES[:1], breaks=(BREAK,)), "breaks the graph on line 22"),
        (run(1, lines=LINES[:1], breaks=(INNER,), not_compiled=(EAGER,)), "`helper` is then not compiled"),
    ],
)
def test_a_function_that_is_left_out_takes_its_lines_and_one_break_and_nothing_else(
    cured: Report, refused: str
) -> None:
    cure = CallCure(CureKind.OUTSIDE, DEF.path, DEF.line, value=f"{FILE}:22:23")
    assert refused in trial_of(cure, run(3), cured).refused
    assert trial_of(cure, run(3), cured).cures is not bool(refused)


SOURCE = {
    20: "    def forward(self, x):",
    21: "        return self.outer(x)",
    30: "    def outer(self, x):",
    31: "        return self.inner(x)",
    40: "    def inner(self, x):",
    41: "        return x * self.table[self.limit]",
}
BORN = (at(21, function="forward"), at(31, function="outer"), at(41, function="inner"))


def _left_out(report: Report) -> tuple[list[CallCure], tuple[str, ...]]:
    (finding,) = findings(report, read_line=lambda _path, line: SOURCE.get(line, ""))
    return [cure for cure in finding.cures if cure.kind is CureKind.OUTSIDE], finding.hints


def test_functions_are_left_out_last_and_the_innermost_first() -> None:
    given = replace(run(3), recompiles=(again(number(born=BORN)),))
    assert _left_out(given)[0] == [], "what else may help is tried first"
    (first,) = findings(given, read_line=lambda _path, line: SOURCE.get(line, ""))
    tried = tuple(CureTrial(cure, 3, 3, "there are still 3 compiles") for cure in first.cures)
    given = replace(given, trials=tried)
    (inner,), hints = _left_out(given)
    assert inner.left_out == (FILE, 40, 41)
    assert not any("torch.compiler.disable" in hint for hint in hints), "it was not tried"
    given = replace(given, trials=(*tried, CureTrial(inner, 3, 3, "there are still 3 compiles")))
    (_, outer), _ = _left_out(given)
    assert outer.left_out == (FILE, 30, 31)
    cured = replace(given, trials=(*given.trials, CureTrial(outer, 3, 1)))
    assert any("above the `def` of `outer` (tried: 3 → 1 compiles)" in hint for hint in _left_out(cured)[1])
    assert not any(hint.startswith("Expect") for hint in _left_out(cured)[1])
    refused = replace(given, trials=(*given.trials, CureTrial(outer, 3, 3, "there are still 3 compiles")))
    assert len(_left_out(refused)[0]) == 2, "the compiled function itself is not left out"
    helped = replace(given, trials=(*tried[1:], CureTrial(tried[0].cure, 3, 1)))
    assert _left_out(helped)[0] == []
