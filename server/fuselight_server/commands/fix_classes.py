"""Which fixes the findings of a check have, as it needs them for its last line; nothing is verified.

Invariant: LibCST is loaded only for a finding of which no earlier check has kept the answer.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from fuselight.shared.codec import encode
from fuselight_server.explain.findings.fixable import FixClass

if TYPE_CHECKING:
    from fuselight.shared.report import Report
    from fuselight_server.base.finding import Finding
    from fuselight_server.commands.outcome import CheckOutcome


class FixClasses:
    """The classes of the fixes of each finding, computed or from an earlier check of the same capture."""

    def __init__(self, outcome: CheckOutcome) -> None:
        self._outcome = outcome
        self._texts: dict[str, str | None] = {}
        self._used: set[str] = set()

    def classes_of(self, finding: Finding, report: Report) -> set[FixClass]:
        """The classes of the fixes that a finding of this report may have."""
        answers, capture = self._outcome.answers, self._outcome.capture_key(report)
        if answers is None or not capture:
            return self._computed(finding, report)
        question = ("fixes", capture, json.dumps(encode(finding), sort_keys=True))
        known = answers.recall(report.target.path, *question)
        if known is not None:
            return {fix_class for fix_class in FixClass if fix_class.value in known.split()}
        classes = self._computed(finding, report)
        text = " ".join(sorted(owner.value for owner in classes))
        answers.remember(report.target.path, text, self._used, *question)
        return classes

    def _computed(self, finding: Finding, report: Report) -> set[FixClass]:
        from fuselight_server.fixes.rewrites.families import remedies  # noqa: PLC0415 - LibCST takes as long as all else in a check

        self._used.clear()
        return {remedy.fix_class for remedy in remedies(finding, report, self._read)}

    def _read(self, path: str) -> str | None:
        from fuselight_server.fixes.verification.file_texts import FileText  # noqa: PLC0415 - with the fixes

        self._used.add(path)
        if path not in self._texts:
            given = self._outcome.sources.given.get(path)
            if given is not None:
                return given
            try:
                self._texts[path] = FileText.read(path).text
            except (OSError, SyntaxError, ValueError, LookupError):
                self._texts[path] = None
        return self._texts[path]
