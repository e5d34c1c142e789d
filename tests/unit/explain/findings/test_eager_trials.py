"""An exception of a compiled call in a program: a run without torch.compile tells whose it is."""

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
from fuselight_server.explain.findings import findings
from fuselight_server.explain.findings.advice.trial_verdict import trial_of
from tests.support.reports import FILE, at, report

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
    assert (trial.cures, trial.is_past_failure) == (True, True)
    (step,) = finding_of(trial).hints
    assert (
        step
        == "Put torch.compiler.disable on the function: without torch.compile, the program goes on here (tried)"
    )


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
