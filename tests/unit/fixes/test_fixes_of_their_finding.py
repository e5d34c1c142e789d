"""What is known of a fix belongs to one finding: to its target, its file, its column and the value that changes."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from fuselight.shared.codec import decode
from fuselight.shared.report import CallCure, CureGoal, CureKind, CureTrial, Tier
from fuselight_server.base.finding import Finding, Severity, Span
from fuselight_server.base.remedies import FindingRemedy, RemedyState, advice, advised, refusals
from fuselight_server.commands.fix import FixedFiles
from fuselight_server.commands.known_fixes import keep_verified
from fuselight_server.editor.session.fix_attempts import FixAttempts
from fuselight_server.editor.session.fix_offers import FixOffer, LineFixes
from fuselight_server.explain.findings.advice.advice import TriedAdvice, tried_remedies
from fuselight_server.fixes.rewrites.families import FixClass, RefusedRewrite, Remedy
from fuselight_server.fixes.verification.attempts import Attempt, FixStatus
from fuselight_server.fixes.verification.fixer import Fixer, FixOptions
from fuselight_server.fixes.verification.remedy_list import of_attempt, of_candidate, of_refusal, with_fixes
from tests.support.reports import FILE, at, broken, report

FINDING = Finding(
    *("GB0124", Severity.WARNING, "item", "Why.", Span("/w/net.py", 7, 8), Tier.CAPTURE, "step", "", ""),
    target_path="/w/train.py",
)
OTHERS = {
    "another target": replace(FINDING, target="loss"),
    "another file": replace(FINDING, target_path="/w/eval.py"),
    "another column": replace(FINDING, span=Span("/w/net.py", 7, 20)),
    "another value": replace(FINDING, subject="number lr"),
}
WHERE = Remedy("where", "Use torch.where", FixClass.EXACT, {"/w/net.py": "new"})


def offer(name: str, finding: Finding) -> FixOffer:
    missing: Any = None
    return FixOffer(name, missing, missing, finding, WHERE, {})


def passed(finding: Finding) -> Attempt:
    attempt = Attempt(finding, finding.span.line, WHERE, FixStatus.PASSED, "same results")
    return replace(attempt, report=report())


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_the_editor_shows_a_verdict_for_its_finding_alone(other: Finding) -> None:
    nothing: Any = None
    attempts = FixAttempts(nothing)
    mine, others = offer("mine", FINDING), offer("others", other)
    attempts.keep_attempt(mine, passed(FINDING))
    refusal = of_refusal(RefusedRewrite("cond", "Use torch.cond", "`x` is written"))
    refused: Any = SimpleNamespace(finding=other, entry=refusal)
    here = LineFixes((mine, others), (refused,))
    shown = {item: attempts.with_fixes(item, here).remedies for item in (FINDING, other)}
    assert [(entry.kind, entry.state) for entry in shown[FINDING]] == [("where", RemedyState.VERIFIED)]
    assert [(entry.kind, entry.state) for entry in shown[other]] == [
        ("where", RemedyState.NOT_TRIED),
        ("cond", RemedyState.REFUSED),
    ]


@pytest.mark.parametrize("is_setting", [True, False])
def test_advice_goes_with_a_refused_fix_but_not_with_a_setting(*, is_setting: bool) -> None:
    words = "Keep the value a tensor"
    refused = replace(of_refusal(RefusedRewrite("tensor", "Keep it", "it rounds")), is_fix=True)
    setting = cure(CureKind.SETTING, value='{"a_switch": true}')
    remedies = with_fixes(
        replace(FINDING, remedies=advice((words,))),
        (replace(refused, cure=setting if is_setting else None),),
    ).remedies
    assert (words in {remedy.text for remedy in remedies}) is is_setting


@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
def test_fix_lists_a_verdict_for_its_finding_alone(other: Finding) -> None:
    files = FixedFiles(FixOptions(), "", writes=False)
    files._findings = dict.fromkeys((FINDING, other), ())
    files.fixer.attempts.append(passed(replace(FINDING, title="item", message="In other words.")))
    assert [len(finding.remedies) for finding in files.listed_findings()] == [1, 0]


def test_a_program_and_its_part_have_one_finding() -> None:
    files = FixedFiles(FixOptions(), "", writes=False)
    part = replace(FINDING, target="Net.forward", target_path="/w/net.py")
    files._owners[part.target_path, part.target] = {(FINDING.target_path, FINDING.target)}
    files._findings = dict.fromkeys((FINDING, part), ())
    files.fixer.attempts.append(passed(part))
    ((entry,),) = [finding.remedies for finding in files.listed_findings()]
    assert entry.state is RemedyState.VERIFIED


@pytest.mark.parametrize(
    ("line", "column", "then"),
    [
        ("y = a.to(b) + f(b.item())", 16, 14),  # `a.item()` was rewritten before it
        ("y = g(a) + f(b.to(a))", 4, 4),  # what follows was rewritten
    ],
)
def test_a_fix_of_the_line_before_moves_the_column(line: str, column: int, then: int) -> None:
    before = "y = g(a) + f(b.item())" if then == column else "y = a.i() + f(b.item())"
    text = f"import torch\n{before}\n"
    fixer = Fixer(read=lambda _path: text, obstacle=lambda _remedy: "", readings={}, folder="")
    fixer.texts.changed["/w/net.py"] = f"import torch\nimport math\n{line}\n"
    read = fixer.as_read(replace(FINDING, span=Span("/w/net.py", 3, column)))
    assert read.span == Span("/w/net.py", 2, then)


def entry_of(cure: CallCure) -> FindingRemedy:
    """What a trial of a cure says that cures."""
    (entry,) = tried_remedies([TriedAdvice("Change it", cure)], {cure: CureTrial(cure, 3, 1)})
    return entry


def cure(kind: CureKind, *subjects: str, value: str = "", goal: CureGoal = CureGoal.COMPILES) -> CallCure:
    return CallCure(kind, "/w/net.py", 1, subjects, value, goal=goal)


LOGGED = '{"reorderable_logging_functions": ["%s"]}'


@pytest.mark.parametrize(
    ("change", "values", "mine", "other"),
    [
        ("tensor_argument", ("lr",), cure(CureKind.TENSOR, "lr"), cure(CureKind.TENSOR, "decay")),
        ("mark_dynamic", ("x.size(0)",), cure(CureKind.MARK, "x.size(0)"), cure(CureKind.MARK, "y.size(0)")),
        (
            *("reorderable_logging_functions", ("print",)),
            *(cure(CureKind.SETTING, value=LOGGED % name) for name in ("print", "warnings.warn")),
        ),
        (
            *("a_switch", ()),
            *(cure(CureKind.SETTING, value=value) for value in ('{"a_switch": true}', '{"a_switch": false}')),
        ),
        ("dynamic", (), *(cure(CureKind.DYNAMIC, value=value) for value in ("True", "None"))),
    ],
)
def test_two_changes_of_a_kind_are_two_remedies(
    change: str, values: tuple[str, ...], mine: CallCure, other: CallCure
) -> None:
    fix = of_candidate(Remedy(change, "Write it", FixClass.EXACT, {"/w/net.py": "new"}, values=values))
    known = replace(FINDING, remedies=(entry_of(other), entry_of(mine)))
    listed = with_fixes(known, (fix,)).remedies
    assert {(entry.cure, entry.is_fix) for entry in listed} == {(mine, True), (other, False)}
    refusal = of_refusal(RefusedRewrite(change, "Write it", "`x` is written", ("another",)))
    entries = with_fixes(FINDING, (fix, refusal)).remedies
    assert [entry.state for entry in entries] == [RemedyState.NOT_TRIED, RemedyState.REFUSED]


@pytest.mark.parametrize(
    ("goal", "why"),
    [
        (CureGoal.BREAKS, "it breaks the graph on line 9"),
        (CureGoal.BREAKS, "the line breaks the graph all the same"),
        (CureGoal.COMPILES, "there are still 3 compiles"),
    ],
    ids=["moved", "in vain", "recompilation"],
)
@pytest.mark.parametrize("has_fix", [True, False], ids=["fix", "setting"])
def test_a_change_that_moves_a_break_is_no_advice_and_is_named_with_the_next_line(
    goal: CureGoal, why: str, *, has_fix: bool
) -> None:
    """A fix of it is verified all the same: code that ran in eager mode may be compiled now."""
    dynamic = cure(CureKind.DYNAMIC, value="True", goal=goal)
    fix = of_candidate(Remedy("dynamic", "Compile with it", FixClass.EXACT, {"/w/net.py": "new"}))
    refusal = CureTrial(dynamic, 3, 1, refused=why)
    (refused,) = tried_remedies([TriedAdvice("Compile with it", dynamic)], {dynamic: refusal})
    entries = with_fixes(replace(FINDING, remedies=(refused,)), (fix,) if has_fix else ()).remedies
    assert advised(entries) == ()
    is_named = has_fix or goal is CureGoal.BREAKS
    assert refusals(entries) == ((f"Compile with it: tried and refused: {why}",) if is_named else ())
    helps = FindingRemedy("Use torch.where", RemedyState.TRIED)
    assert len(refusals([helps, *entries])) == (has_fix and entries[0].state is RemedyState.REFUSED)


@pytest.mark.parametrize("goal", [CureGoal.BREAKS, CureGoal.COMPILES])
@pytest.mark.parametrize("trial", ["", "the program then fails: IndexError", None])
def test_only_what_a_run_refused_was_tried(goal: CureGoal, trial: str | None) -> None:
    """The source refuses a change twice, by one reason: a trial that refused it too is the reason to give."""
    change = cure(CureKind.TENSOR, "n", goal=goal)
    trials = {} if trial is None else {change: CureTrial(change, 3, 1, refused=trial)}
    known = tried_remedies([TriedAdvice("Pass `n` as a tensor", change)], trials)
    read = [
        of_refusal(RefusedRewrite(kind, f"Pass `n` as a tensor {where}", "`net(n)` may need it", ("n",)))
        for kind, where in (("tensor_argument", "here"), ("tensor_argument_at_call", "in the call"))
    ]
    reasons = refusals(with_fixes(replace(FINDING, remedies=known), read).remedies)
    assert len(reasons) <= 1
    assert all(("tried and refused" in reason) is bool(trial) for reason in reasons)
    assert not any("may need it" in reason for reason in reasons if trial)


@pytest.mark.parametrize(
    ("why", "state"),
    [
        ("it cannot be verified: the `__main__` block is a whole program", RemedyState.TRIED),
        ("output differs", RemedyState.REFUSED),
    ],
)
def test_what_a_trial_has_shown_stays_where_a_fix_could_not_be_compared(why: str, state: RemedyState) -> None:
    dynamic = cure(CureKind.DYNAMIC, value="True")
    (tried,) = tried_remedies([TriedAdvice("Compile with it", dynamic)], {dynamic: CureTrial(dynamic, 4, 2)})
    fix = of_candidate(Remedy("dynamic", "Compile with it", FixClass.EXACT, {"/w/net.py": "new"}))
    refused = replace(fix, state=RemedyState.REFUSED, why=why)
    (entry,) = with_fixes(replace(FINDING, remedies=(tried,)), (refused,)).remedies
    assert entry.state is state
    assert (entry.counts, entry.unwritten) == (
        ("4 → 2 compiles", why) if state is RemedyState.TRIED else ("", "")
    )


def test_verdicts_of_two_columns_are_kept_apart() -> None:
    kept: dict[tuple[str, ...], str] = {}
    answers: Any = SimpleNamespace(
        remember=lambda _path, text, _files, *question: kept.update({question: text})
    )
    entry = of_candidate(WHERE)
    for finding in (FINDING, *OTHERS.values()):
        keep_verified(answers, f"capture of {finding.target_path} {finding.target}", finding, (entry,))
    assert len(kept) == 1 + len(OTHERS)


def test_what_fix_has_verified_is_read_again_as_it_was() -> None:
    kept: list[str] = []
    answers: Any = SimpleNamespace(remember=lambda _path, text, *_: kept.append(text))
    tried = replace(entry_of(cure(CureKind.DYNAMIC, value="True")), cure=None)
    entries = (of_attempt(passed(FINDING)), tried)
    keep_verified(answers, "key", FINDING, entries)
    assert decode(tuple[FindingRemedy, ...], json.loads(kept[0])) == entries


def test_a_change_that_trials_name_for_two_values_is_listed_once() -> None:
    entry = replace(entry_of(cure(CureKind.DYNAMIC, value="True")), state=RemedyState.NOT_TRIED)
    known = replace(FINDING, remedies=(entry, replace(entry, about="`y`")))
    fix = of_candidate(Remedy("dynamic", "Write it", FixClass.EXACT, {"/w/net.py": "new"}))
    assert [remedy.text for remedy in with_fixes(known, (fix,)).remedies] == ["Write it"]


@pytest.mark.parametrize(("is_fix", "is_cure"), [(True, True), (False, True), (False, False), (True, False)])
def test_a_change_that_no_trial_makes_is_not_verified_yet(*, is_fix: bool, is_cure: bool) -> None:
    tried = cure(CureKind.DYNAMIC, value="True") if is_cure else None
    entry = FindingRemedy("Set it", RemedyState.NOT_TRIED, is_fix=is_fix, cure=tried)
    what = "possible change is not tried yet" if is_cure or not is_fix else "possible fix is not verified yet"
    assert advised((entry,)) == (f"1 {what}",)
    several = advised((entry, replace(entry, text="Set more")))
    assert several == ("2 " + what.replace("change is", "changes are").replace("fix is", "fixes are"),)
    reason = replace(entry, why="the run ended early").words()
    assert reason == f"Set it (not {'tried' if is_cure or not is_fix else 'verified'}: the run ended early)"
    assert entry.as_data()["state"] == "not tried"


def test_the_findings_of_fixes_have_the_advice_of_a_check() -> None:
    text = "import torch\n\n\ndef f(x):\n    if x.isnan().any():\n        return None\n    return x\n"
    fixer = Fixer(read={FILE: text}.get, obstacle=lambda _remedy: "", readings={}, folder="")
    known = report(breaks=(broken(at(5, (7, 22), function="f")),))
    (finding,) = fixer.findings(known)
    assert finding.hints[0].startswith("Return the condition")
    (after,) = fixer.findings_after(known, {FILE: text.replace("return None", "x = x * 2")})
    assert "torch.where" in after.hints[0]
