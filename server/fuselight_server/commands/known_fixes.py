"""The fixes that the findings of a check have, joined with what is advised and tried; nothing is verified here.

Invariant: LibCST is loaded only for a finding of which no earlier check has kept the answer. What `fuselight fix` has
verified of the same capture is known.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable

from fuselight.shared.codec import DecodeError, decode, encode
from fuselight.shared.foreign_data import parse_json
from fuselight.shared.report import Report
from fuselight_server.base.finding import Finding
from fuselight_server.base.remedies import FindingRemedy
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.execution.runs.kept_answers import KeptAnswers
from fuselight_server.execution.runs.planning import MAIN
from fuselight_server.explain.findings.fixable import has_remedies
from fuselight_server.fixes.verification.remedy_list import of_candidate, of_refusal, with_fixes

_MAX = 200
"""Findings of one outcome of which the fixes are looked up: each takes some milliseconds."""


def list_fixes(outcome: CheckOutcome) -> None:
    """Add their fixes to the lists of remedies of the findings, for a face that shows all of them at once."""
    known = FindingFixes(outcome)
    outcome.findings = [known.listed(finding) for finding in outcome.findings]


def reports_of(finding: Finding, outcome: CheckOutcome) -> list[Report]:
    """The reports of the target that has the finding."""
    target = finding.target_path, finding.target
    return [report for report in outcome.reports if target_of(report) == target]


def target_of(report: Report) -> tuple[str, str]:
    """The file and the name of a report's target, as its findings have them."""
    return report.target.path, report.target.name or MAIN


def keep_verified(answers: KeptAnswers, key: str, finding: Finding, fixes: Iterable[FindingRemedy]) -> None:
    """Keep what a verification found of the fixes of a finding; `key`: of the capture."""
    text = json.dumps(encode(tuple(fixes)))
    answers.remember(finding.target_path, text, (finding.span.path,), *_verified(key, finding))


class FindingFixes:
    """The fixes of each finding, computed or from an earlier check of the same capture when they are shown."""

    def __init__(self, outcome: CheckOutcome) -> None:
        """`outcome`: with the findings that are shown; of more than `_MAX`, the lines to fix first count."""
        self._outcome = outcome
        ranks = {
            (priority.cost.path, priority.cost.line): rank for rank, priority in enumerate(outcome.priorities)
        }
        order = sorted(
            filter(lambda finding: has_remedies(finding.code), outcome.findings),
            key=lambda finding: ranks.get((finding.span.path, finding.span.line), len(ranks)),
        )
        self._looked_up = set(order[:_MAX])
        self._texts: dict[str, str | None] = {}
        self._used: set[str] = set()

    def listed(self, finding: Finding) -> Finding:
        """A finding with its fixes in its list of remedies."""
        return with_fixes(finding, self._of(finding)) if finding in self._looked_up else finding

    def _of(self, finding: Finding) -> tuple[FindingRemedy, ...]:
        """The fixes that a finding may have, the best first, by the first of its reports that has any."""
        of_reports = (self._of_report(finding, report) for report in reports_of(finding, self._outcome))
        return next((fixes for fixes in of_reports if fixes), ())

    def _of_report(self, finding: Finding, report: Report) -> tuple[FindingRemedy, ...]:
        answers, capture = self._outcome.answers, self._outcome.capture_key(report)
        others = sorted(map(self._outcome.capture_key, self._outcome.reports))
        tried = self._outcome.tried_fixes.get(finding.identity, ())
        if answers is None or not all(others):
            return _with_known(self._computed(finding, report), tried)
        path = report.target.path
        # A trial that came later changes no fix.
        asked = dataclasses.replace(finding, remedies=(), message="")
        question = ("fixes", capture, *others, json.dumps(encode(asked), sort_keys=True))
        fixes = _read(answers.recall(path, *question))
        if fixes is None:
            fixes = self._computed(finding, report)
            answers.remember(path, json.dumps(encode(fixes)), self._used, *question)
        if tried:
            keep_verified(answers, capture, finding, tried)
        verified = _read(answers.recall(path, *_verified(capture, finding))) or ()
        return _with_known(fixes, verified)

    def _computed(self, finding: Finding, report: Report) -> tuple[FindingRemedy, ...]:
        from fuselight_server.fixes.rewrites.families import rewrites  # noqa: PLC0415 - LibCST takes as long as all else in a check

        self._used.clear()
        known = rewrites(finding, report, self._read, self._outcome.reports)
        return (*map(of_candidate, known.remedies), *map(of_refusal, known.refused))

    def _read(self, path: str) -> str | None:
        from fuselight_server.fixes.verification.notebook_texts import text_of_file  # noqa: PLC0415 - with the fixes

        self._used.add(path)
        if path not in self._texts:
            given = self._outcome.sources.given.get(path)
            if given is not None:
                return given
            file = text_of_file(path)
            self._texts[path] = file.text if file is not None else None
        return self._texts[path]


def _with_known(
    fixes: tuple[FindingRemedy, ...], known: tuple[FindingRemedy, ...]
) -> tuple[FindingRemedy, ...]:
    """The fixes, and in place of some what came of a run or of a verification of them."""
    changes = {(fix.kind, fix.text) for fix in known}
    return (*known, *(fix for fix in fixes if (fix.kind, fix.text) not in changes))


def _read(text: str | None) -> tuple[FindingRemedy, ...] | None:
    """Remedies as they were kept; None if there are none."""
    if text is None:
        return None
    try:
        fixes: tuple[FindingRemedy, ...] = decode(tuple[FindingRemedy, ...], parse_json(text))
    except (ValueError, DecodeError):
        return None
    return fixes


def _verified(key: str, finding: Finding) -> tuple[str, ...]:
    return ("verified", key, *map(str, finding.identity_in_target))
