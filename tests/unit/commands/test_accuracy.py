"""The verdict of `fuselight accuracy` on each target, and its exit code."""

from __future__ import annotations

import pytest

from fuselight.shared.report import Culprit, Failure, Problem, ResultComparison
from fuselight_server.commands.accuracy import AccuracyOutcome, ResultsState, state_of
from fuselight_server.commands.accuracy_options import AccuracyOptionError, compared_with
from fuselight_server.commands.outcome import CheckOutcome
from tests.support.compared_results import STATE, UNDECIDED, WRONG, compared_call
from tests.support.reports import report

FAILED = (Failure(Culprit.USER, "exception", "it failed", "fix it"),)
NOTHING = ResultComparison((), 0)


@pytest.mark.parametrize(
    ("results", "failures", "state", "exit_code"),
    [
        (ResultComparison((compared_call(0),), 1), (), ResultsState.AS_EAGER, 0),
        (ResultComparison((compared_call(0), compared_call(1, UNDECIDED)), 2), (), ResultsState.AS_EAGER, 0),
        (ResultComparison((compared_call(0, WRONG),), 1), (), ResultsState.DIFFERS, 1),
        (ResultComparison((compared_call(0, others=STATE),), 1), (), ResultsState.DIFFERS, 1),
        (ResultComparison((compared_call(0, UNDECIDED),), 1), (), ResultsState.NOT_COMPARED, 2),
        (NOTHING, (), ResultsState.NOT_COMPARED, 2),
        (None, (), ResultsState.NOT_COMPARED, 2),
        (ResultComparison((compared_call(0),), 1), FAILED, ResultsState.NOT_COMPARED, 2),
    ],
)
def test_the_verdict_and_the_exit_code(
    results: ResultComparison | None, failures: tuple[Failure, ...], state: ResultsState, exit_code: int
) -> None:
    answer = report(results=results, failures=failures)
    assert state_of(answer) is state
    assert AccuracyOutcome(CheckOutcome(reports=[answer])).exit_code == exit_code
    problems = [Problem("source", "m.py", "syntax error")]
    assert AccuracyOutcome(CheckOutcome(reports=[answer], problems=problems)).exit_code == 2
    assert AccuracyOutcome(CheckOutcome()).exit_code == 2


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("eager", ""),
        ("default", "default"),
        ("max-autotune+tf32", "max-autotune+tf32"),
        ("backend:aot_eager+dynamic", "backend:aot_eager+dynamic"),
    ],
)
def test_calls_are_compared_with_a_configuration(text: str, name: str) -> None:
    assert compared_with(text) == name


@pytest.mark.parametrize("text", ["written", "default+blocks", "default+optimizer", "quick", "eager+tf32"])
def test_a_configuration_that_is_more_than_a_compile_is_refused(text: str) -> None:
    with pytest.raises(AccuracyOptionError):
        compared_with(text)
