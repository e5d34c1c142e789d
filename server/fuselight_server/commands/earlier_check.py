"""The capture and the trials of a target as `fuselight check` makes and keeps them, for `fuselight fix`.

Invariant: trials are those of the very run that would be made again. The verdicts are kept beside that capture.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from fuselight_server.base.remedies import RemedyState
from fuselight_server.commands.check import try_advice
from fuselight_server.commands.known_fixes import keep_verified, target_of
from fuselight_server.execution.runs.kept_answers import KeptAnswers
from fuselight_server.fixes.verification.cure_trials import TrialBudget

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fuselight.shared.report import Report
    from fuselight_server.base.finding import Finding
    from fuselight_server.commands.kept_captures import KeptCaptures
    from fuselight_server.commands.outcome import CheckOutcome
    from fuselight_server.commands.targets import TargetRun


class EarlierCheck:
    """The captures that checks keep of the targets of one command."""

    def __init__(self, captures: KeptCaptures | None, tries: float | None = 0.0) -> None:
        """`captures`: None where texts are given that no file has; `tries`: as in `analyze`."""
        self._captures = captures
        self._budget = TrialBudget(tries)
        self._keys: dict[tuple[str, str], str] = {}
        """By file and name of a target, the key of its capture."""

    async def report_of(self, target_run: TargetRun, outcome: CheckOutcome) -> Report:
        """The report of a target with the trials of its cures: it is run, and tried, as far as no check has done so.

        What is new is kept for the next check.
        """
        request, captures = target_run.request, self._captures
        known = captures.answer(request) if captures is not None else None
        asked = captures.recording(request) if captures is not None else request
        first = known.report if known is not None else await target_run.run_report(asked)
        report = await try_advice(target_run, first, self._budget, outcome)
        key = known.key if known is not None else ""
        if captures is not None and known is None and target_run.worker.hello is not None:
            key = captures.keep_capture(request, report, target_run.worker.hello.packages)
        elif captures is not None and report is not first:
            key = captures.keep_trials(request, report)
        self._keys[target_of(report)] = key
        return report

    def keep_verified(self, findings: Iterable[Finding]) -> None:
        """Keep what was verified of the fixes of findings, for the next check."""
        answers = KeptAnswers()
        for finding in findings:
            key = self._keys.get((finding.target_path, finding.target), "")
            fixes = [
                dataclasses.replace(remedy, cure=None)
                for remedy in finding.remedies
                if remedy.is_fix and remedy.state in {RemedyState.VERIFIED, RemedyState.REFUSED}
            ]
            if key and fixes:
                keep_verified(answers, key, finding, fixes)
        answers.save()
