"""Runs of the text before a change: one that ends early says so, is not kept, and names no file of ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fuselight.shared.protocol import RunRequest, VerifyRequest
from fuselight.shared.report import CallComparison, CaseFamily, Culprit, Failure, Report, Verification
from fuselight_server.execution.runs.planning import RunOptions, named_runs
from fuselight_server.fixes.rewrites.remedy import FixClass, Remedy
from fuselight_server.fixes.verification.comparison import TextComparison, compare_calls
from fuselight_server.fixes.verification.comparison_runs import ComparisonRuns
from fuselight_server.fixes.verification.fixed_texts import FixedTexts
from fuselight_server.fixes.verification.fixer import Fixer
from fuselight_server.source.document import read_source
from tests.support.reports import FILE, report

TEXT = "import torch\n# fuselight: f(f32[6, 4])\n@torch.compile\ndef f(x):\n    return x * 2\n"
CHANGE = Remedy("patch", "It", FixClass.EQUAL, {FILE: TEXT + "# new\n"}, best_class=FixClass.EXACT)
SAME = report(
    verification=Verification(
        tuple(CallComparison(0, "recorded inputs", compiled=mode) for mode in (False, True))
    )
)
SLOW = report(failures=(Failure(Culprit.ENVIRONMENT, "timeout", "it took longer than 120 s", phase="call"),))


class AnsweringTarget:
    """A target whose runs have answers (comparison_runs.FixTarget)."""

    def __init__(self, answer: Callable[[VerifyRequest], Report]) -> None:
        options = RunOptions(roots=("/project",))
        (planned,) = named_runs(read_source(FILE, TEXT), ["f"], options)
        self.request: RunRequest = planned.start_message(1, 1, options)
        self.show: Callable[[str], None] = lambda _text: None
        self.requests: list[VerifyRequest] = []
        self._answer = answer

    async def run_report(self, request: RunRequest) -> Report:
        assert isinstance(request, VerifyRequest)
        self.requests.append(request)
        return self._answer(request)


def files_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


@pytest.mark.asyncio
async def test_a_program_of_which_no_call_is_known_is_not_said_to_fail(tmp_path: Path) -> None:
    unknown = report(failures=(Failure(Culprit.USER, "inputs", "the `__main__` block is a whole program"),))
    runs = ComparisonRuns(FixedTexts(lambda _path: TEXT), str(tmp_path), inductor=False, case_seconds=20.0)
    verdict = compare_calls(CHANGE, await runs.verified(AnsweringTarget(lambda _request: unknown), CHANGE))
    assert verdict.words == "it cannot be verified: the `__main__` block is a whole program"


@pytest.mark.asyncio
async def test_a_run_of_the_old_text_that_ends_early_is_named_and_made_again_for_the_next_change(
    tmp_path: Path,
) -> None:
    answers = iter([SLOW, report(verification=Verification()), SAME])
    target = AnsweringTarget(lambda _request: next(answers))
    runs = ComparisonRuns(FixedTexts(lambda _path: TEXT), str(tmp_path), inductor=False, case_seconds=20.0)
    first = compare_calls(CHANGE, await runs.verified(target, CHANGE))
    assert first.words == "it cannot be verified: the text without the fix fails: it took longer than 120 s"
    assert files_in(tmp_path) == []
    assert compare_calls(CHANGE, await runs.verified(target, CHANGE)).fix_class is FixClass.EXACT
    assert [request.records for request in target.requests] == [True, True, False]


NAMES = [f"case {number}" for number in range(10)]


def in_rounds(size: int) -> Callable[[VerifyRequest], Report]:
    """Make `size` further calls in each round."""

    def answer(request: VerifyRequest) -> Report:
        if not request.cases:
            return report(verification=Verification()) if request.records else SAME
        reached = min(request.first + size, len(NAMES))
        entries = tuple(
            CallComparison(0, name, compiled=False, family=CaseFamily.SIZE)
            for name in NAMES[request.first : reached]
        )
        verification = Verification(entries, reached=reached, left=tuple(NAMES[reached:]))
        return report(verification=verification)

    return answer


async def completed(folder: Path, target: AnsweringTarget, most_rounds: int) -> TextComparison:
    fixer = Fixer(
        read=lambda _path: TEXT,
        obstacle=lambda _remedy: "",
        readings={},
        folder=str(folder),
        most_rounds=most_rounds,
    )
    comparison = compare_calls(CHANGE, await fixer.runs.verified(target, CHANGE))
    comparison = await fixer.compare_round(target, CHANGE, comparison)
    while comparison.left:
        comparison = await fixer.compare_round(target, CHANGE, comparison)
    return comparison


@pytest.mark.asyncio
async def test_rounds_go_on_until_all_calls_are_compared(tmp_path: Path) -> None:
    target = AnsweringTarget(in_rounds(4))
    comparison = await completed(tmp_path, target, most_rounds=30)
    assert (comparison.fix_class, comparison.words) == (FixClass.EXACT, "same results")
    assert set(NAMES) <= set(comparison.tried)
    rounds = [(request.records, request.first) for request in target.requests if request.cases]
    assert rounds == [(True, 0), (False, 0), (True, 4), (False, 4), (True, 8), (False, 8)]


@pytest.mark.asyncio
async def test_the_last_round_names_what_it_leaves(tmp_path: Path) -> None:
    comparison = await completed(tmp_path, AnsweringTarget(in_rounds(4)), most_rounds=2)
    assert comparison.fix_class is FixClass.EQUAL
    assert comparison.words == "same results, but not compared: case 8 and case 9"


@pytest.mark.asyncio
async def test_a_round_of_the_old_text_that_fails_leaves_other_inputs_uncompared(tmp_path: Path) -> None:
    def answer(request: VerifyRequest) -> Report:
        refused = "the inputs cannot be made again" if request.cases else ""
        return report(verification=Verification(refused=refused)) if request.records else SAME

    comparison = await completed(tmp_path, AnsweringTarget(answer), most_rounds=2)
    assert (comparison.fix_class, comparison.not_reached) == (FixClass.EQUAL, ("other inputs",))
