"""A fix that was compared on a part's calls counts by what it does to the whole program."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from fuselight.shared.report import (
    CallCure,
    Culprit,
    CureKind,
    CureTrial,
    Failure,
    Problem,
    Recompile,
    Report,
)
from fuselight_server.base.finding import Finding, Severity, Span
from fuselight_server.base.remedies import FindingRemedy, RemedyState
from fuselight_server.commands.fix_parts import program_attempts
from fuselight_server.explain.findings.advice.advice import TriedAdvice, together, tried_remedies
from fuselight_server.explain.findings.common.context import TRIALS
from fuselight_server.fixes.rewrites.families import FixClass, Remedy, Rewrites
from fuselight_server.fixes.verification import fixer as fixer_module
from fuselight_server.fixes.verification.attempts import Attempt, FixStatus
from fuselight_server.fixes.verification.finding_changes import finding_changes
from fuselight_server.fixes.verification.fixer import Fixer, FixOptions
from fuselight_server.fixes.verification.progress import CompileProgress
from fuselight_server.fixes.verification.remedy_list import of_attempt, refused_in_a_trial, with_fixes
from fuselight_server.fixes.verification.whole_programs import ALONE
from tests.support.reports import FILE, at, broken, report

TEXT = "def f(x):\n    a\n    b\n    c\n"
REMEDY = Remedy("where", "Use torch.where", FixClass.EXACT, {FILE: TEXT.replace("b", "better")})
FIRST = report(breaks=(broken(at(2, (4, 5))), broken(at(3, (4, 5)))))


def again(times: int, line: int = 1) -> Report:
    """A program that compiles a function again so often."""
    items = (
        Recompile("f", at(line), (), compile_id=f"0/{number}", call=number) for number in range(1, times + 1)
    )
    return report(recompiles=tuple(items))


def judged(before: Report, after: Report, attempted: Finding | None = None) -> tuple[Attempt, list[Any]]:
    """The attempt to fix line 3 of a part, whose program gives `after` with the fix, and the runs of the program."""
    asked: list[Any] = []

    async def run(request: Any) -> Report:
        asked.append(request)
        return after

    fixer = Fixer(read={FILE: TEXT}.get, obstacle=lambda _remedy: "", readings={}, folder="")
    of_text: Any = SimpleNamespace(changed_request=lambda request, texts: (request, texts))
    fixer.texts.changed_request = of_text.changed_request  # type: ignore[method-assign]
    part: Any = SimpleNamespace()
    program: Any = SimpleNamespace(request="program", run_report=run, show=lambda _words: None)
    fixer.programs.add(program, before, [part])
    finding = attempted or fixer.findings(before)[-1]
    attempt = Attempt(finding, finding.span.line, REMEDY, FixStatus.PASSED, "same results")
    attempt = replace(attempt, report=report(), graphs=(5, 4), effect="5 → 4 graphs")
    return asyncio.run(fixer.programs.judge(part, attempt)), asked


def test_the_counts_of_a_fix_are_those_of_the_whole_program() -> None:
    attempt, asked = judged(FIRST, report(breaks=FIRST.breaks[:1]))
    assert (attempt.has_passed, attempt.effect) == (True, "2 → 1 breaks")
    assert asked == [("program", REMEDY.texts)], "the run of the text before the fix is known"


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        (FIRST, FIRST, "the whole program still has the finding"),
        (again(2), again(2), "the whole program compiles as often as before"),
        (
            FIRST,
            report(failures=(Failure(Culprit.USER, "exception", "ValueError: no"),)),
            "the whole program then fails: ValueError: no",
        ),
    ],
    ids=["break", "recompilation", "failure"],
)
def test_a_fix_that_helps_calls_repeated_alone_and_not_the_program_is_refused(
    before: Report, after: Report, why: str
) -> None:
    attempt, _ = judged(before, after)
    assert (attempt.status, attempt.why, attempt.effect) == (FixStatus.REFUSED, why, "")


def test_of_several_recompilations_one_less_is_enough() -> None:
    attempt, _ = judged(again(3), again(2))
    assert (attempt.has_passed, attempt.effect) == (True, "3 → 2 recompilations")


def test_another_cause_that_failed_with_the_fixed_one_leaves_the_count_as_it_was() -> None:
    finding = Finding("FL201", Severity.WARNING, "x.size(0)", "", Span(FILE, 4), FIRST.tier, "f", "", "")
    progress = CompileProgress(again(2), again(2), {})
    refused, tried = (
        finding_changes(finding, [finding], [], progress, moves_break=False, is_tried=is_tried)
        for is_tried in (False, True)
    )
    assert (refused.why, tried.why) == ("the calls that are repeated compile as often as before", "")
    attempt, _ = judged(again(2), again(2), finding)
    assert attempt.effect == f"5 → 4 graphs {ALONE}", "the program has no such finding"


@pytest.mark.parametrize(
    "first",
    [
        replace(FIRST, problems=(Problem(TRIALS, "cures", "it compiled something else"),)),
        replace(FIRST, phases={"main": 1000.0}),
    ],
    ids=["a program that varies", "a long program"],
)
def test_a_program_that_cannot_show_it_says_which_calls_were_counted(first: Report) -> None:
    attempt, asked = judged(first, FIRST)
    assert (attempt.has_passed, attempt.effect, asked) == (True, f"5 → 4 graphs {ALONE}", [])
    ended = report(failures=(Failure(Culprit.USER, "timeout", "killed after 5 s"),))
    assert judged(FIRST, ended)[0].effect == f"5 → 4 graphs {ALONE}"


def dynamic(line: int = 4, **changes: Any) -> CallCure:
    return replace(CallCure(CureKind.DYNAMIC, FILE, line, value="True"), **changes)


STATIC = "there are still 3 compiles"
WRITTEN = Remedy("dynamic", "Compile with dynamic=True", FixClass.EXACT, {FILE: "new"})


def with_trials(*trials: CureTrial) -> Finding:
    entries = tried_remedies(
        [TriedAdvice("Compile with it", trial.cure) for trial in trials],
        {trial.cure: trial for trial in trials},
    )
    return Finding(
        *("FL201", Severity.WARNING, "again", "", Span(FILE, 4), FIRST.tier, "f", "", ""), remedies=entries
    )


def test_what_a_trial_refused_is_refused_with_its_reason_unless_it_helps_with_others() -> None:
    alone = CureTrial(dynamic(), 3, 3, STATIC)
    tensor = CallCure(CureKind.TENSOR, FILE, 4, ("L['scale']",))
    joint = CureTrial(together((dynamic(), tensor)), 3, 1)
    assert refused_in_a_trial(with_trials(alone), WRITTEN) == STATIC
    assert refused_in_a_trial(with_trials(alone, joint), WRITTEN) == ""
    assert refused_in_a_trial(with_trials(CureTrial(dynamic(), 3, 1)), WRITTEN) == ""
    assert refused_in_a_trial(with_trials(), WRITTEN) == ""


def test_fix_makes_no_run_of_what_a_trial_refused_and_lists_it_as_check_does() -> None:
    finding = with_trials(CureTrial(dynamic(), 3, 3, STATIC))
    fixer = Fixer(read={FILE: TEXT}.get, obstacle=lambda _remedy: "", readings={}, folder="")
    nothing: Any = None
    attempt = asyncio.run(fixer.first_attempt(nothing, finding, WRITTEN, FIRST))
    assert (attempt.status, attempt.why) == (FixStatus.REFUSED, STATIC)
    entry = FindingRemedy(WRITTEN.title, RemedyState.NOT_TRIED, "dynamic", is_fix=True)
    fixed, checked = (with_fixes(finding, (fix,)).remedies for fix in (of_attempt(attempt), entry))
    assert fixed == checked
    assert [(remedy.state, remedy.why) for remedy in fixed] == [(RemedyState.REFUSED, STATIC)]


@pytest.mark.parametrize(
    ("trial", "why", "state"),
    [
        (CureTrial(dynamic(), 3, 3, STATIC), STATIC, RemedyState.REFUSED),
        (CureTrial(dynamic(), 3, 1), "it helps (3 → 1 compiles), but its results", RemedyState.TRIED),
        (None, "not known to help", RemedyState.REFUSED),
    ],
)
def test_a_finding_of_the_whole_program_has_what_its_trial_shows(
    monkeypatch: pytest.MonkeyPatch, trial: CureTrial | None, why: str, state: RemedyState
) -> None:
    finding = with_trials(*((trial,) if trial else ()))
    fixer = Fixer(read={FILE: TEXT}.get, obstacle=lambda _remedy: "", readings={}, folder="")
    whole, of_part = FIRST, report()
    monkeypatch.setattr(fixer_module, "rewrites", lambda *_: Rewrites((WRITTEN,), ()))
    monkeypatch.setattr(fixer, "findings", lambda known: (finding,) if known is whole else ())
    part: Any = SimpleNamespace(request=SimpleNamespace(target=SimpleNamespace(name="f")))
    (attempt,) = program_attempts(fixer, [whole], [(part, of_part)], FixOptions())
    assert attempt.why.startswith(why)
    (entry,) = with_fixes(finding, (of_attempt(attempt),)).remedies
    assert entry.state is state
