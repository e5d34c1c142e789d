"""Makes the changes of a forecast, and tries remedies for those that compile again.

Invariant: a remedy that passed ran: with it, the changed calls compile less often than without, no graph break is new,
and each call gives the same results. No text changes.
"""

from __future__ import annotations

import dataclasses
import difflib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fuselight_server.base.files import split_text
from fuselight_server.fixes.rewrites.families import FixClass, Remedy
from fuselight_server.fixes.verification.verdict import Verdict, changed_compiles, changes_verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from fuselight.shared.protocol import RunRequest
    from fuselight.shared.report import CallChange, Report
    from fuselight_server.base.finding import Finding
    from fuselight_server.explain.findings.forecasts.forecasts import ExpectedChange
    from fuselight_server.fixes.verification.comparison_runs import FixTarget
    from fuselight_server.fixes.verification.fixer import Fixer

MAX_CHANGES = 6
"""Changes of a target that are tried: each takes some calls of the target."""
_CODES = ("FL201", "FL102")


@dataclass(frozen=True)
class RemedyTrial:
    """One remedy that was tried."""

    remedy: Remedy
    verdict: Verdict
    diff: tuple[str, ...]
    """The lines that it changes: `-` or `+`, then the line."""

    @property
    def words(self) -> str:
        """`verified: Compile with dynamic=True (1 → 0 compiles, same results)`, or `refused: ...`."""
        verdict = "verified" if self.verdict.passed else "refused"
        return f"{verdict}: {self.remedy.title} ({self.verdict.words})"


@dataclass
class ChangeTrial:
    """One change of a forecast that was made."""

    remedies: list[RemedyTrial] = field(default_factory=list)
    why_not: str = ""
    """Why no remedy was tried; empty if one was."""

    @property
    def words(self) -> tuple[str, ...]:
        """`verified: Compile with dynamic=True (1 → 0 compiles, same results)`: what came of it, one line each."""
        if not self.remedies:
            return (f"no remedy was tried: {self.why_not}",)
        passed = sorted(self.remedies, key=lambda trial: not trial.verdict.passed)
        return tuple(trial.words for trial in passed)


@dataclass(frozen=True)
class ChangedTarget:
    """A target with further calls (fixer.FixTarget)."""

    of: FixTarget
    changes: tuple[CallChange, ...]

    @property
    def request(self) -> RunRequest:
        """As in FixTarget."""
        return dataclasses.replace(self.of.request, changes=self.changes)

    @property
    def show(self) -> Callable[[str], None]:
        """As in FixTarget."""
        return self.of.show

    async def run_report(self, request: RunRequest) -> Report:
        """As in FixTarget."""
        return await self.of.run_report(request)


def tried_changes(changes: Iterable[ExpectedChange]) -> tuple[ExpectedChange, ...]:
    """The changes for which remedies are tried: the likely ones that a call can make."""
    return tuple(
        change for change in changes if change.recompiles and change.is_likely and change.call_changes
    )[:MAX_CHANGES]


async def try_remedies(
    fixer: Fixer, target: FixTarget, report: Report, change: ExpectedChange
) -> ChangeTrial:
    """Make a change in further calls of the target, then again with each remedy of what they compile.

    `report`: that of the target's calls without the change.
    """
    target.show(f"trying remedies: {change.what}")
    changed = ChangedTarget(target, change.call_changes)
    old = await fixer.runs.recorded(changed)
    why_not = _obstacle(old)
    first = len(report.inputs.calls) if report.inputs else 0
    if not why_not and not changed_compiles(old, first):
        why_not = "the changed call compiled nothing"
    if why_not:
        return ChangeTrial(why_not=why_not)
    trial = ChangeTrial()
    for remedy in _candidates(fixer, report, old):
        new = await fixer.runs.verified(changed, remedy)
        verdict = changes_verdict(remedy, old, new, first)
        trial.remedies.append(RemedyTrial(remedy, verdict, tuple(_diff(fixer, remedy))))
    trial.why_not = "" if trial.remedies else "no edit of a file that removes it is known"
    return trial


def _obstacle(old: Report) -> str:
    """Why the calls of the text as it is cannot be compared with those of another; empty if they can."""
    if old.verification is not None:
        return old.verification.refused
    return old.failures[0].message if old.failures else "the changed calls gave no results"


def _candidates(fixer: Fixer, report: Report, old: Report) -> Iterator[Remedy]:
    """Remedies of the recompilations that the changed calls added, each once; none that changes results."""
    known = {_identity(finding) for finding in fixer.findings(report)}
    seen: set[tuple[str, str]] = set()
    for finding in fixer.findings(old):
        if finding.code not in _CODES or _identity(finding) in known:
            continue
        for remedy in fixer.candidates(finding, old):
            key = (remedy.kind, remedy.title)
            if remedy.fix_class is not FixClass.CHANGES and key not in seen:
                seen.add(key)
                yield remedy


def _identity(finding: Finding) -> tuple[object, ...]:
    return finding.code, finding.span.path, finding.span.line, finding.subject


def _diff(fixer: Fixer, remedy: Remedy) -> Iterator[str]:
    for path, text in remedy.texts.items():
        lines = split_text(fixer.texts.text(path) or ""), split_text(text)
        for line in difflib.unified_diff(*lines, n=0, lineterm=""):
            if line.startswith(("+", "-")) and not line.startswith(("+++", "---")):
                yield line.rstrip("\r\n")
