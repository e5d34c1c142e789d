"""What a fix does to a whole program, whose calls of one part alone are compared.

Invariant: a fix that leaves its finding as it was in the whole program is refused. Where the program cannot show what a
fix does, the counts are named as those of the calls that are repeated alone.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from fuselight_server.explain.findings.common.context import TRIALS
from fuselight_server.explain.findings.common.counts import counts
from fuselight_server.fixes.verification.attempts import Attempt, effect, refuse
from fuselight_server.fixes.verification.finding_changes import AS_OFTEN, STILL_THERE, finding_changes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from fuselight.shared.report import Report
    from fuselight_server.base.finding import Finding
    from fuselight_server.fixes.rewrites.remedy import Remedy
    from fuselight_server.fixes.verification.comparison_runs import FixTarget
    from fuselight_server.fixes.verification.fixed_texts import FixedTexts
    from fuselight_server.fixes.verification.progress import CompileProgress

ALONE = "of the calls repeated alone"
REFUSED = {
    AS_OFTEN: "the whole program compiles as often as before",
    STILL_THERE: "the whole program still has the finding",
}
"""Why a change is refused, in words about the whole program, by those about the calls that are repeated."""
_LONGEST = 60.0
"""Seconds of a program that is run again for each fix; a longer one is not."""


class WholePrograms:
    """The programs whose calls parts repeat, with their reports of the texts so far."""

    def __init__(
        self,
        texts: FixedTexts,
        findings_after: Callable[[Report, Mapping[str, str]], tuple[Finding, ...]],
        progress: Callable[[Report, Report, Remedy], CompileProgress],
    ) -> None:
        """Start with none. `texts`: those so far; `findings_after` and `progress`: as of `Fixer`."""
        self._texts, self._findings_after, self._progress = texts, findings_after, progress
        self._parts: list[tuple[FixTarget, FixTarget, Report]] = []
        self._reports: dict[int, tuple[dict[str, str], Report]] = {}
        """By the identity of a program, its last texts and their report."""

    def add(self, program: FixTarget, report: Report, parts: Iterable[FixTarget]) -> None:
        """Add the parts of a program; `report`: its own, without any fix."""
        self._parts += [(part, program, report) for part in parts if part is not program]

    async def judge(self, target: FixTarget, attempt: Attempt) -> Attempt:
        """The attempt for a part that has passed, with the counts of its program, or refused by them."""
        program, first = next((known[1:] for known in self._parts if known[0] is target), (None, None))
        if program is None or first is None:
            return attempt
        remedy, texts = attempt.remedy, self._texts
        of_calls = dataclasses.replace(attempt, effect=f"{attempt.effect} {ALONE}" if attempt.effect else "")
        if any(item.stage == TRIALS for item in first.problems) or sum(first.phases.values()) > _LONGEST:
            return of_calls
        known, before = self._reports.get(id(program), ({}, first))
        if known != texts.changed:
            before = await program.run_report(texts.changed_request(program.request))
            self._reports[id(program)] = dict(texts.changed), before
        findings = self._findings_after(before, {})
        asked = attempt.finding.identity_in_target
        finding = next((each for each in findings if each.identity_in_target == asked), None)
        if finding is None:
            return of_calls
        program.show("the whole program with it")
        after = await program.run_report(texts.changed_request(program.request, remedy.texts))
        if after.failures and not before.failures:
            failure = after.failures[0]
            why = f"the whole program then fails: {failure.message}"
            return of_calls if failure.kind == "timeout" else refuse(attempt, why)
        progress = self._progress(before, after, remedy)
        now = self._findings_after(after, remedy.texts)
        changes = finding_changes(finding, findings, now, progress, moves_break=remedy.moves_break)
        if refused := REFUSED.get(changes.why):
            return refuse(attempt, refused)
        self._reports[id(program)] = texts.after(remedy.texts), after
        old, new = counts(before), counts(after)
        shown = effect(old, new, progress.traced)
        return dataclasses.replace(attempt, graphs=(old.graphs, new.graphs), effect=shown)
