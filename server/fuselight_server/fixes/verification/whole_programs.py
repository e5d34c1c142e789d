"""What a fix does to a whole program, whose calls of one part alone are compared.

Invariant: a fix that leaves its finding as it was in the whole program is refused. Where the program cannot show what a
fix does, the counts are named as those of the calls that are repeated alone.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from fuselight.shared.report import Culprit
from fuselight_server.explain.findings.common.context import TRIALS
from fuselight_server.explain.findings.common.counts import counts
from fuselight_server.fixes.verification.attempts import Attempt, effect, refuse
from fuselight_server.fixes.verification.finding_changes import finding_changes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from fuselight.shared.report import Report
    from fuselight_server.base.finding import Finding
    from fuselight_server.fixes.rewrites.remedy import Remedy
    from fuselight_server.fixes.verification.comparison_runs import FixTarget
    from fuselight_server.fixes.verification.fixed_texts import FixedTexts
    from fuselight_server.fixes.verification.progress import CompileProgress

ALONE = "of the calls repeated alone"
IN_PROGRAM = {"FL201": "the whole program compiles as often as before"}
STILL_THERE = "the whole program still has the finding"
_LONGEST = 60.0
"""Seconds of a program that is run again for each fix; a longer one is not."""
_OF_TEXT = frozenset({"exception", "fullgraph", "recompile_limit"})
"""Kinds of failures that a fix may cause, besides those of the compiler: another run may not have the others."""


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
        known = ((program, first) for part, program, first in self._parts if part is target)
        program, first = next(known, (None, None))
        if program is None or first is None:
            return attempt
        remedy = attempt.remedy
        is_stable = not any(problem.stage == TRIALS for problem in first.problems)
        if not is_stable or sum(first.phases.values()) > _LONGEST:
            return _of_calls(attempt)
        before = await self._report(program, first, self._texts.changed)
        findings = self._findings_after(before, {})
        finding = _same(attempt.finding, findings)
        if finding is None:
            return _of_calls(attempt)
        program.show("the whole program with it")
        after = await program.run_report(self._texts.changed_request(program.request, remedy.texts))
        if after.failures and not before.failures:
            failure = after.failures[0]
            why = f"the whole program then fails: {failure.message}"
            is_of_text = failure.kind in _OF_TEXT or failure.culprit is Culprit.COMPILER
            return refuse(attempt, why) if is_of_text else _of_calls(attempt)
        progress = self._progress(before, after, remedy)
        changes = finding_changes(
            *(finding, findings, self._findings_after(after, remedy.texts), progress),
            moves_break=remedy.moves_break,
        )
        if changes.is_left:
            return refuse(attempt, IN_PROGRAM.get(finding.code, STILL_THERE))
        self._reports[id(program)] = self._texts.after(remedy.texts), after
        old, new = counts(before), counts(after)
        return dataclasses.replace(
            attempt, graphs=(old.graphs, new.graphs), effect=effect(old, new, progress.traced)
        )

    async def _report(self, program: FixTarget, first: Report, texts: Mapping[str, str]) -> Report:
        """The report of a program with the texts so far."""
        known, report = self._reports.get(id(program), ({}, first))
        if known != texts:
            report = await program.run_report(self._texts.changed_request(program.request))
            self._reports[id(program)] = dict(texts), report
        return report


def _of_calls(attempt: Attempt) -> Attempt:
    words = f"{attempt.effect} {ALONE}" if attempt.effect else ""
    return dataclasses.replace(attempt, effect=words)


def _same(finding: Finding, others: Iterable[Finding]) -> Finding | None:
    """The finding of a program that a part has, too."""
    place = finding.code, finding.span.path, finding.span.line
    same = [each for each in others if (each.code, each.span.path, each.span.line) == place]
    exact = (each for each in same if each.subject == finding.subject)
    return next(exact, None) or (same[0] if len(same) == 1 else None)
