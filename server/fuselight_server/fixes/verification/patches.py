"""A change that a person or an agent has written, verified as a fix is: compiled, and compared with the text before it.

Invariant: whatever is unknown is not the same. Findings do not decide: that results are the same, and that findings
went away, are two answers.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuselight.shared.report import Culprit, Report
from fuselight_server.base.files import split_text
from fuselight_server.base.remedies import UNVERIFIED
from fuselight_server.execution.runs.planning import with_texts
from fuselight_server.fixes.rewrites.remedy import CAPTURES, FixClass, Remedy
from fuselight_server.fixes.verification.comparison import OTHER_INPUTS, TextComparison, compare_calls, end
from fuselight_server.fixes.verification.finding_changes import is_same_finding, uncovered_findings
from fuselight_server.fixes.verification.progress import CompileProgress
from fuselight_server.fixes.verification.verdict import EAGER_TOO, VerdictKind
from fuselight_server.source.line_map import LineMap

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from fuselight_server.base.finding import Finding, SourceLine
    from fuselight_server.fixes.verification.comparison_runs import FixTarget
    from fuselight_server.fixes.verification.fixer import Fixer

_SETTINGS = re.compile(r"\.compile\b|_dynamo|_inductor|mark_dynamic|mark_static|allow_in_graph|\bdynamic\b")
"""In a changed line: compiled calls alone may show what it does."""

_OTHER_CALLS = (
    f"{UNVERIFIED}the patch also changes which calls are made, and results are compared on the same calls. "
    "Verify the code first, and change the example inputs afterwards"
)


class AllowedChange(str, enum.Enum):
    """What a patch may change besides the code."""

    RANDOM = "random_numbers"
    PRINTED = "printed_text"
    EXCEPTIONS = "exceptions"


_ALLOWED_WORDS = {
    AllowedChange.RANDOM: "random numbers",
    AllowedChange.PRINTED: f"what is printed or logged {EAGER_TOO}",
    AllowedChange.EXCEPTIONS: "which exceptions are raised",
}


@dataclass(frozen=True)
class PatchVerdict:
    """What came of a patch for one target."""

    comparison: TextComparison
    """Of its calls, without the lines of `not_run`."""
    before: Report
    after: Report
    """Of the new text: what it compiles to."""
    fixed: tuple[Finding, ...]
    """Findings of the old text that the new one has no more."""
    new: tuple[Finding, ...]
    """Findings that only the new text has, without those of `next`."""
    kept: tuple[Finding, ...]
    """Findings of the new text that the old one has, too."""
    next: tuple[Finding, ...] = ()
    """Findings that the patch uncovers in code that ran in eager mode before."""
    not_run: tuple[SourceLine, ...] = ()
    """Changed lines of the new text that no compared call ran."""
    old_not_run: tuple[SourceLine, ...] = ()
    """Changed and deleted lines of the old text that no compared call ran."""

    @property
    def kind(self) -> VerdictKind:
        """How the results relate."""
        return self.comparison.kind

    @property
    def fix_class(self) -> FixClass | None:
        """How the results relate: not exactly where a changed line did not run; None unless they are the same."""
        fix_class = self.comparison.fix_class
        is_lowered = fix_class is FixClass.EXACT and (self.not_run or self.old_not_run)
        return FixClass.EQUAL if is_lowered else fix_class

    @property
    def has_run(self) -> bool:
        """Whether the new text came to compiled code: else what it compiles to is not known."""
        after = self.after
        return after.inputs is not None and bool(after.compiles or after.breaks or not after.failures)


def patch_of(texts: Mapping[str, str], old: Mapping[str, str], allowed: Collection[AllowedChange]) -> Remedy:
    """A patch as verification takes it. `old`: the texts before it."""
    lines = [line for path, text in texts.items() for line in _changed_lines(old.get(path, ""), text)]
    changes = ", ".join(words for change, words in _ALLOWED_WORDS.items() if change in allowed)
    return Remedy(
        kind="patch",
        title="The patch",
        fix_class=FixClass.CHANGES if changes else FixClass.EQUAL,
        texts=dict(texts),
        changes=changes,
        best_class=FixClass.EXACT,
        is_setting=any(map(_SETTINGS.search, lines)),
        moves_break=any(CAPTURES in line for line in lines),
    )


def _changed_lines(old: str, new: str) -> set[str]:
    return set(split_text(old)) ^ set(split_text(new))


async def verify_patch(
    fixer: Fixer, target: FixTarget, before: Report, remedy: Remedy, *, has_further_calls: bool
) -> PatchVerdict:
    """Verify a patch for one target. `before`: its report of the old text."""
    if before.inputs is None:
        return await _without_inputs(fixer, target, before, remedy)
    if not fixer.may_be_changed(before, remedy):
        words = "the target runs nothing that the patch changes"
        return patch_verdict(fixer, remedy, (before, before), TextComparison(VerdictKind.UNCONCERNED, words))
    new = await fixer.runs.verified(target, remedy)
    if not new.failures and _calls(new) != _calls(before):
        return patch_verdict(
            fixer, remedy, (before, new), TextComparison(VerdictKind.UNVERIFIED, _OTHER_CALLS)
        )
    comparison = compare_calls(remedy, new)
    if not comparison.has_passed:
        ran = comparison.kind is VerdictKind.DIFFERS
        after = new if ran else await target.run_report(with_texts(target.request, remedy.texts))
        return patch_verdict(fixer, remedy, (before, after), comparison)
    if not has_further_calls:
        comparison = end(remedy, dataclasses.replace(comparison, left=(OTHER_INPUTS,)))
    else:
        comparison = await fixer.compare_rounds(target, remedy, comparison)
    verdict = patch_verdict(fixer, remedy, (before, new), comparison)
    if not comparison.has_passed:
        return verdict
    not_run, old_not_run = fixer.lines_not_run(remedy, comparison)
    return dataclasses.replace(verdict, not_run=not_run, old_not_run=old_not_run)


async def _without_inputs(fixer: Fixer, target: FixTarget, before: Report, remedy: Remedy) -> PatchVerdict:
    """The verdict for a target that made no call: nothing can be compared."""
    failure = next(iter(before.failures), None)
    why = "no inputs of the target are known"
    if failure is not None:
        why = f"the code before the change did not run: {failure.message}"
    after = before
    if failure is None or failure.culprit is not Culprit.ENVIRONMENT:  # the new text may run
        after = await target.run_report(with_texts(target.request, remedy.texts))
    comparison = TextComparison(VerdictKind.UNVERIFIED, f"{UNVERIFIED}{why}")
    return patch_verdict(fixer, remedy, (before, after), comparison)


def patch_verdict(
    fixer: Fixer, remedy: Remedy, reports: tuple[Report, Report], comparison: TextComparison
) -> PatchVerdict:
    """The verdict with what is known of the findings; `reports`: of the old and the new text."""
    before, after = reports
    old = fixer.findings(before)
    if after is before:
        return PatchVerdict(comparison, before, after, (), (), tuple(old))
    new = fixer.findings_after(after, remedy.texts)
    lines = {path: LineMap.between(fixer.texts.text(path) or "", text) for path, text in remedy.texts.items()}
    fixed, added, kept = compare_findings(old, new, lines)
    progress = CompileProgress(before, after, lines)
    uncovered = uncovered_findings(added, progress, moves_break=remedy.moves_break)
    added = tuple(finding for finding in added if finding not in uncovered)
    fixed = fixed if _is_as_complete(*reports) else ()
    return PatchVerdict(comparison, before, after, fixed, added, kept, uncovered)


def _is_as_complete(before: Report, after: Report) -> bool:
    """Whether the new text's run got as far as the old one's: after a failure, a finding may only be out of reach."""
    known = {(failure.kind, failure.message) for failure in before.failures}
    return after.inputs is not None and all(
        (failure.kind, failure.message) in known for failure in after.failures
    )


def compare_findings(
    old: Iterable[Finding], new: Iterable[Finding], lines: Mapping[str, LineMap]
) -> tuple[tuple[Finding, ...], tuple[Finding, ...], tuple[Finding, ...]]:
    """Findings that are gone, that are new, and those of the new text that the old one has as well."""
    left = list(new)
    fixed, kept = [], []
    for finding in old:
        same = [other for other in left if is_same_finding(finding, other, lines)]
        match = next((other for other in same if other.title == finding.title), None) or next(
            iter(same), None
        )
        if match is None:
            fixed.append(finding)
        else:
            left.remove(match)
            kept.append(match)
    return tuple(fixed), tuple(left), tuple(kept)


def _calls(report: Report) -> tuple[str, ...]:
    """The calls of a run: a patch may drop the one that its code would fail."""
    return tuple(call.text for call in report.inputs.calls) if report.inputs is not None else ()
