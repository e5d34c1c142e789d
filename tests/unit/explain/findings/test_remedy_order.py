"""Which of several changes comes first, and the break that comes next after one."""

from __future__ import annotations

from dataclasses import replace

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
    Graph,
    NextBreak,
    NotCompiled,
    NotCompiledKind,
    Outcome,
    Report,
    TrialCounts,
)
from fuselight_server.base.remedies import FindingRemedy, RemedyState, in_order, refusals
from fuselight_server.explain.findings.advice.advice import TriedAdvice, tried_remedies
from fuselight_server.explain.findings.advice.trial_verdict import trial_of
from tests.support.reports import FILE, at, broken, report

PRINTS = '{"reorderable_logging_functions": ["builtins.print"]}'
SCALARS = '{"capture_scalar_outputs": true}'
SKIPPED = NotCompiled(NotCompiledKind.SKIPPED, "Net.run", at(5), "in a loop", stack=(at(8),))


def cure(value: str = PRINTS) -> CallCure:
    return CallCure(CureKind.SETTING, FILE, 8, value=value, goal=CureGoal.BREAKS)


def test_a_reason_that_refuses_several_fixes_is_said_once() -> None:
    refused = [
        FindingRemedy(text, RemedyState.REFUSED, why="`w` varies too") for text in ("Mark a", "Mark b")
    ]
    other = FindingRemedy("Use c", RemedyState.REFUSED, why="`w` is a number")
    assert refusals([*refused, other]) == (
        "Mark a: no fix is offered: `w` varies too",
        "Use c: no fix is offered: `w` is a number",
    )


def run(*breaks: Break, skipped: tuple[NotCompiled, ...] = (SKIPPED,)) -> Report:
    compiles = (Compile("0/0", 0, Outcome.COMPILED),)
    return report(compiles=compiles, breaks=breaks, not_compiled=skipped, trial=TrialCounts(calls=1))


def of_loop(line: int, gb: str) -> Break:
    return broken(at(line, function="run"), gb=gb, frame_skipped=True)


@pytest.mark.parametrize(
    ("value", "gb", "is_next"),
    [
        (PRINTS, "GB0170", True),
        (PRINTS, "GB0059", True),
        (SCALARS, "GB0059", True),
        (SCALARS, "GB0170", False),  # the branch needs the number that is not read any more
    ],
)
def test_a_change_that_gets_further_in_eager_code_names_the_next_break(
    value: str, gb: str, *, is_next: bool
) -> None:
    trial = trial_of(cure(value), run(of_loop(8, "GB0059")), run(of_loop(9, gb)))
    assert (trial.before, trial.after, trial.cures) == (1, 0 if is_next else 1, is_next)
    assert trial.next == ((NextBreak(gb, FILE, 9),) if is_next else ())
    (remedy,) = tried_remedies([TriedAdvice("Add print to the setting", trial.cure)], {trial.cure: trial})
    if is_next:
        assert remedy.words() == (
            f"Add print to the setting (tried: the graph then breaks later, next: {gb} on model.py:9)"
        )
    else:
        assert (remedy.state, remedy.why) == (RemedyState.REFUSED, "it breaks the graph on line 9")


def test_a_break_in_code_that_was_compiled_refuses_a_change() -> None:
    compiled = trial_of(cure(), run(of_loop(8, "GB0059"), skipped=()), run(of_loop(9, "GB0170"), skipped=()))
    assert (compiled.next, compiled.refused) == ((), "it breaks the graph on line 9")
    other_file = broken(at(9, path="/project/parts.py", function="part"))
    elsewhere = trial_of(cure(), run(of_loop(8, "GB0059")), run(other_file))
    assert elsewhere.refused == "it breaks the graph on line 9 of parts.py"


def test_a_line_of_a_library_has_its_file_also_where_the_break_is_in_that_file() -> None:
    """The finding is on the user's line that led there, as for an index into a ModuleList."""
    path = "/env/lib/python3.11/site-packages/torch/nn/modules/container.py"
    first, later = (broken(at(line, path=path, function="pick"), gb="GB0033") for line in (352, 368))
    trial = trial_of(replace(cure(), path=path, line=352), run(first, skipped=()), run(later, skipped=()))
    assert trial.refused == "it breaks the graph on line 368 of container.py"


def test_a_change_that_brings_nothing_more_into_graphs_is_no_cure() -> None:
    """torch gives up the rest of the loop's function with the setting too, for the break on line 9."""
    both = (of_loop(8, "GB0033"), of_loop(9, "GB0036"))
    trial = trial_of(cure(SCALARS), run(*both), run(both[1]))
    assert trial.refused == "the code after it stays in eager mode, and no more operators run inside graphs"
    compiled = trial_of(cure(SCALARS), run(*both), run(both[1], skipped=()))
    assert (compiled.cures, compiled.before, compiled.after) == (True, 2, 1)


def test_code_that_only_a_message_left_out_leads_to_is_no_loss() -> None:
    ignored = cure('{"ignore_logging_functions": ["logging.Logger.warning"]}')
    library = at(297, path="/lib/logging/__init__.py", function="__init__")

    def record(*caller: int) -> Report:
        graph = Graph(1, lines=((library,),), targets=("add",))
        inside = Compile("1/0", 0, Outcome.COMPILED, graph=graph, caller=tuple(map(at, caller)))
        return report(
            compiles=(inside,),
            breaks=(broken(at(8, function="run"), gb="GB0291"),),
            trial=TrialCounts(calls=1, graph_runs={"1/0": 2}),
        )

    assert trial_of(ignored, record(8), run(skipped=())).cures
    refused = trial_of(ignored, record(12), run(skipped=())).refused
    assert refused == "line 297 of __init__.py then runs outside of graphs"


@pytest.mark.parametrize(
    ("exception", "why"),
    [
        (
            "GuardOnDataDependentSymNode",
            "the compile then fails, because code after this line needs the number itself",
        ),
        ("IndexError", "the program then fails: IndexError"),
    ],
)
def test_a_failure_of_a_trial_is_said_in_plain_words(exception: str, why: str) -> None:
    failure = Failure(Culprit.USER, "exception", "u0", exception=exception, stack=(at(9),))
    cured = replace(run(), failures=(failure,))
    assert trial_of(cure(SCALARS), run(of_loop(8, "GB0124")), cured).refused == why


def test_of_changes_that_were_tried_the_one_that_leaves_the_least_comes_first() -> None:
    trials = {
        "more breaks": CureTrial(cure("1"), 4, 0, breaks=3, compiles=1, operators=9),
        "more compiles": CureTrial(cure("2"), 4, 0, breaks=1, compiles=4, operators=9),
        "fewer operators": CureTrial(cure("3"), 4, 0, breaks=1, compiles=2, operators=5),
        "best": CureTrial(cure("4"), 4, 0, breaks=1, compiles=2, operators=7),
    }
    candidates = [TriedAdvice(text, trial.cure) for text, trial in trials.items()]
    remedies = tried_remedies(candidates, {trial.cure: trial for trial in trials.values()})
    order = ["best", "fewer operators", "more compiles", "more breaks"]
    assert [remedy.text for remedy in remedies] == order
    written = [replace(remedy, is_fix=remedy.text == "more breaks") for remedy in remedies]
    assert [
        remedy.text for remedy in in_order(sorted(written, key=lambda remedy: not remedy.is_fix))
    ] == order


def test_of_fixes_that_passed_the_one_that_leaves_the_least_comes_first() -> None:
    def fix(text: str, left: tuple[int, ...], state: RemedyState = RemedyState.VERIFIED) -> FindingRemedy:
        return FindingRemedy(text, state, is_fix=True, left=left)

    best, worse = fix("best", (0, 0, 1, 2, -9)), fix("worse", (0, 0, 2, 2, -9))
    changes, tried = fix("changes", (1, 0, 0, 1, -9)), fix("tried", (0,), RemedyState.TRIED)
    assert in_order((tried, changes, worse, best)) == (best, worse, changes, tried)
