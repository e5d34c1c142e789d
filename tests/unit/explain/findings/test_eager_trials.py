"""A failure is asked more by another run: one without torch.compile, or one without fullgraph=True."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fuselight.shared.report import (
    CallCure,
    Culprit,
    CureKind,
    CureTrial,
    Failure,
    Location,
    Report,
    TrialCounts,
)
from fuselight_server.base.finding import Finding
from fuselight_server.base.remedies import refusals
from fuselight_server.explain.findings import findings
from fuselight_server.explain.findings.advice.trial_verdict import trial_of
from tests.support.reports import FILE, at, broken, report

COMPILED = 'File "/env/torch/_dynamo/eval_frame.py", line 1, in compile_wrapper'
FAILURE = Failure(
    Culprit.USER,
    "exception",
    "RuntimeError: sizes do not match",
    "Call the function without torch.compile",
    "RuntimeError",
    (at(20), replace(at(8), function="crop")),
    traceback=COMPILED,
    phase="main",
)
EAGER = CallCure(CureKind.EAGER, FILE, 8)
RAN = TrialCounts(calls=2, changed=2)


def finding_of(*trials: CureTrial, failure: Failure = FAILURE) -> Finding:
    """The finding of the failure, with these trials."""
    (finding,) = findings(report(failures=(failure,), trials=trials))
    return finding


def eager_run(*failures: Failure, counts: TrialCounts = RAN) -> Report:
    """The report of the program without torch.compile."""
    return report(failures=failures, trial=counts)


def tried(cured: Report) -> CureTrial:
    """What the run without torch.compile shows."""
    return trial_of(EAGER, report(failures=(FAILURE,), trial=RAN), cured)


def other(line: int, message: str) -> Failure:
    """What eager mode raises on a line."""
    return replace(FAILURE, message=message, stack=(at(20), at(line)), traceback="")


def test_a_compiled_call_of_a_program_is_to_be_tried_without_torch_compile() -> None:
    finding = finding_of()
    assert (finding.code, finding.cures) == ("FL401", (EAGER,))
    assert finding.hints == ("Call the function without torch.compile",)


@pytest.mark.parametrize(
    "failure",
    [replace(FAILURE, traceback=""), replace(FAILURE, phase="call"), replace(FAILURE, kind="import")],
    ids=["not compiled", "a directive's call, which was tried", "import"],
)
def test_other_failures_are_not(failure: Failure) -> None:
    assert finding_of(failure=failure).cures == ()


def test_what_only_compiled_code_raises_stays_in_eager_mode() -> None:
    trial = tried(eager_run())
    assert (trial.cures, trial.is_made) == (True, True)
    (step,) = finding_of(trial).hints
    assert (
        step
        == "Put torch.compiler.disable on `crop`: without torch.compile, the program goes on here (tried)"
    )


def test_a_function_is_not_disabled_in_a_whole_graph() -> None:
    given = report(failures=(FAILURE,), trials=(tried(eager_run()),), fullgraph=True)
    ((step,),) = (finding.hints for finding in findings(given))
    assert step.startswith("Put torch.compiler.disable on `crop` and remove fullgraph=True: without")


@pytest.mark.parametrize(
    ("raised", "words"),
    [
        (other(8, FAILURE.message), "the program fails on this line, too (tried)"),
        (
            other(8, "ValueError: 2 is not 3"),
            "the program fails on this line, too: ValueError: 2 is not 3 (tried)",
        ),
        (other(9, "KeyError: 'a'"), "the program fails on line 9: KeyError: 'a' (tried)"),
    ],
    ids=["same", "other words", "later"],
)
def test_what_eager_mode_raises_too_is_of_the_code(raised: Failure, words: str) -> None:
    (step,) = finding_of(tried(eager_run(raised))).hints
    assert step == f"Correct the code: without torch.compile, {words}"


@pytest.mark.parametrize("location", [at(8), at(9)], ids=["this line", "another line"])
def test_a_run_that_made_no_call_tells_nothing(location: Location) -> None:
    trial = tried(eager_run(replace(FAILURE, stack=(location,)), counts=TrialCounts()))
    assert finding_of(trial).hints == ("Call the function without torch.compile",)


REFUSED = replace(FAILURE, kind="fullgraph", gb_id="GB0170", message="Data-dependent branching", traceback="")
REMOVED = "Or remove fullgraph=True: this line then runs in eager mode"
WHOLE = CallCure(CureKind.FULLGRAPH, FILE, 8)


def whole(*lines: int, changed: int = 1, failures: tuple[Failure, ...] = ()) -> Finding:
    """The finding of a refused graph break on line 8, where without fullgraph=True these lines break the graph."""
    breaks = tuple(broken(at(line)) for line in lines)
    cured = report(breaks=breaks, failures=failures, trial=TrialCounts(calls=1, changed=changed))
    trial = trial_of(WHOLE, report(failures=(REFUSED,), trial=RAN), cured)
    return finding_of(trial, failure=REFUSED)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            (8,),
            "Or remove fullgraph=True: this line then runs in eager mode, and no other line breaks the graph (tried)",
        ),
        ((8, 9), "Correct line 9, too: without fullgraph=True, this line breaks the graph (tried)"),
        ((12, 8, 9, 9), "Correct lines 9 and 12, too: without fullgraph=True, they break the graph (tried)"),
    ],
)
def test_all_lines_that_break_the_graph_are_named_with_the_first(lines: tuple[int, ...], words: str) -> None:
    finding = whole(*lines)
    assert (finding.code, finding.cures) == ("FL404", (WHOLE,))
    assert finding.hints[-1] == words


@pytest.mark.parametrize(
    "finding", [finding_of(failure=REFUSED), whole(8, 9, changed=0), whole(8, failures=(FAILURE,))]
)
def test_without_such_a_run_nothing_is_said_of_other_lines(finding: Finding) -> None:
    assert finding.hints[-1] == REMOVED


def test_a_disabled_function_is_tried_as_a_part_of_the_graph() -> None:
    marked = broken(
        at(8), gb="GB0098", explanation="Skip calling function `plain` since it was wrapped with it."
    )

    def of_mark(*trials: CureTrial) -> Finding:
        (finding,) = findings(report(breaks=(marked,), trials=trials))
        return finding

    (cure,) = of_mark().cures
    assert (cure.kind, cure.value) == (CureKind.INSIDE, "plain")
    outside = "Call it before or after the compiled code"
    assert of_mark().hints == (outside, "1 possible change is not tried yet")
    helps = of_mark(CureTrial(cure, 1, 0))
    assert helps.hints[0] == "Remove torch.compiler.disable from `plain` (tried: 1 → 0 graph breaks)"
    prints = of_mark(CureTrial(cure, 1, 1, refused="it breaks the graph on line 3"))
    assert prints.hints == (outside,)
    shown = "Remove torch.compiler.disable from `plain`: tried and refused: it breaks the graph on line 3"
    assert refusals(prints.remedies) == (shown,)
    unmade = CureTrial(
        cure, 1, 1, refused="no module and no class has the function by its name", is_made=False
    )
    assert (of_mark(unmade).hints, refusals(of_mark(unmade).remedies)) == ((outside,), ())
