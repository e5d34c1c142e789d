"""What the terminal and the editor fix alike: a target, or a program by its calls of each thing that it compiles."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from fuselight_server.base.formatting import format_list
from fuselight_server.execution.runs.planning import program_calls
from fuselight_server.fixes.verification.attempts import Attempt, FixStatus
from fuselight_server.fixes.verification.comparison_runs import FixTarget
from fuselight_server.fixes.verification.remedy_list import NOT_REACHED, helping_trial, refused_in_a_trial

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from fuselight.shared.protocol import RunRequest
    from fuselight.shared.report import Report
    from fuselight_server.base.cancellation import CancelToken
    from fuselight_server.base.finding import Finding
    from fuselight_server.fixes.rewrites.remedy import Remedy
    from fuselight_server.fixes.verification.fixer import Fixer, FixOptions

T = TypeVar("T", bound=FixTarget)


async def parts_of(
    target: T, token: CancelToken, report: Report, with_request: Callable[[RunRequest], T]
) -> list[tuple[T, Report]]:
    """Return what fixes of a target are verified for, each with its report: the calls of a program, or itself.

    `with_request` makes the target of a call. The trials of the program count for its parts.
    """
    parts = [with_request(request) for request in program_calls(target.request, report)]
    return [
        (part, replace(await token.run(part.run_report(part.request)), trials=report.trials))
        for part in parts
    ] or [(target, report)]


async def fix_part(
    fixer: Fixer, target: FixTarget, token: CancelToken, first: Report, asked: FixOptions
) -> Report:
    """Fix the findings of a part on top of the fixes so far; returns its report of the last text.

    `first`: its report without any fix, which counts while no file that it read has changed.
    """
    is_changed = bool(fixer.texts.changed.keys() & first.files.keys())
    report = (
        await token.run(target.run_report(fixer.texts.changed_request(target.request)))
        if is_changed
        else first
    )
    return await token.run(fixer.fix(target, report, asked))


_NOT_IN_A_PART = "calls of {} that are repeated alone, in which the finding does not occur"


def program_attempts(
    fixer: Fixer, firsts: Sequence[Report], parts: Sequence[tuple[FixTarget, Report]], asked: FixOptions
) -> list[Attempt]:
    """The fixes that only the findings of a program as a whole have, each refused with the reason.

    `check` names a program for `fix` by these findings, as it makes no calls of the parts. `firsts`: the program's
    reports, one for each target in it; all reports are without any fix.
    """
    compared = {
        _change(finding, remedy)
        for _, report in parts
        for finding in fixer.findings(report)
        for remedy in fixer.candidates(finding, report)
    }
    names = dict.fromkeys(part.request.target.name for part, _ in parts)
    words = _NOT_IN_A_PART.format(format_list([f"`{name}`" for name in names]))

    def refused(finding: Finding, remedy: Remedy) -> Attempt:
        """What a trial has shown of all calls counts for the list of the finding."""
        helps = helping_trial(finding, remedy)
        known = f"it helps ({helps.counts}), but its results are compared on {words}" if helps else ""
        known = known or refused_in_a_trial(finding, remedy)
        why = known or f"{NOT_REACHED}{words}"
        return Attempt(*(finding, finding.span.line, remedy, FixStatus.REFUSED, why), is_of_trial=bool(known))

    attempts = {
        _change(finding, remedy): refused(finding, remedy)
        for first in firsts
        for finding in fixer.findings(first)
        if asked.takes(finding)
        for remedy in fixer.candidates(finding, first)
    }
    return [attempt for change, attempt in attempts.items() if change not in compared]


def _change(finding: Finding, remedy: Remedy) -> tuple[object, ...]:
    return *finding.identity_in_target, remedy.kind, remedy.title
