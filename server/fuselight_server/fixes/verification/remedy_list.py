"""The one list of remedies of a finding: what is advised, what was tried, and the fixes that Fuselight writes.

Invariant: a fix and a trial of the same change are one entry. What a verification says outranks what a trial shows, and
what either refuses is no advice.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from fuselight.shared.report import CureGoal
from fuselight_server.base.remedies import IN_A_TRIAL, UNVERIFIED, FindingRemedy, RemedyState, in_order
from fuselight_server.explain.findings.advice.trial_verdict import MOVED_BREAKS
from fuselight_server.explain.findings.common.text import compose
from fuselight_server.explain.findings.fixable import BREAKS, FixClass

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fuselight_server.base.finding import Finding
    from fuselight_server.fixes.rewrites.remedy import Remedy
    from fuselight_server.fixes.syntax.refusals import RefusedRewrite
    from fuselight_server.fixes.verification.attempts import Attempt

NOT_REACHED = "not known to help: it is compared on "
"""How the reason begins of a fix that was refused without a comparison: advice of the same meaning stays."""
_CURE_KINDS = {
    "tensor_argument": "tensor",
    "tensor_argument_at_call": "tensor",
    "buffer": "tensor",
    "contiguous_at_call": "contiguous",
    "mark_dynamic": "mark",
}
"""Kinds of fixes that make the change of a cure, by the kind of the cure; others have one name for both."""


def of_candidate(remedy: Remedy) -> FindingRemedy:
    """A fix that is not verified."""
    is_change = remedy.fix_class is FixClass.CHANGES
    cost = f"It changes behavior ({remedy.changes})" if is_change else ""
    return FindingRemedy(
        *(remedy.title, RemedyState.NOT_TRIED, remedy.kind),
        cost=cost,
        is_fix=True,
        changes_behavior=is_change,
        values=remedy.values,
    )


def of_refusal(rewrite: RefusedRewrite) -> FindingRemedy:
    """A rewrite that is not the same for every call."""
    return FindingRemedy(
        rewrite.title, RemedyState.REFUSED, rewrite.kind, rewrite.reason, values=rewrite.values
    )


def of_attempt(attempt: Attempt) -> FindingRemedy:
    """A fix with what came of its verification."""
    entry = of_candidate(attempt.remedy)
    if attempt.is_checking or attempt.is_skipped or attempt.is_of_trial:
        return entry
    if attempt.has_passed:
        limits = (attempt.why, "one side not tried" if attempt.is_one_sided else "", attempt.next_words)
        why = ", ".join(filter(None, limits))
        return replace(entry, state=RemedyState.VERIFIED, why=why, counts=attempt.effect, left=attempt.left)
    return replace(entry, state=RemedyState.REFUSED, why=attempt.why)


def with_fixes(finding: Finding, fixes: Iterable[FindingRemedy]) -> Finding:
    """The finding with its fixes in its list of remedies, and with a message that says what the list does.

    A rewrite that the source alone refuses says nothing beside a fix that makes the same change. Where a trial of it is
    refused as well, that gives the reason.
    """
    remedies, fixes = list(finding.remedies), tuple(dict.fromkeys(fixes))
    changes = {(fix.kind, fix.values) for fix in fixes if fix.is_fix}
    fixes = tuple(fix for fix in fixes if fix.is_fix or (fix.kind, fix.values) not in changes)
    tried = [remedy for remedy in remedies if remedy.state is RemedyState.REFUSED]
    joined: list[FindingRemedy] = []
    for fix in sorted(fixes, key=lambda fix: fix.state is RemedyState.REFUSED):
        same = [remedy for remedy in remedies if _is_same_change(remedy, fix)]
        remedies = [remedy for remedy in remedies if remedy not in same]
        same = same or [trial for trial in tried if not fix.is_fix and _is_same_change(trial, fix)]
        joined.append(_join(same[0], fix) if same else fix)
    listed = in_order((*joined, *_left(finding, remedies, joined)))
    return _with_remedies(finding, listed)


def _with_remedies(finding: Finding, remedies: tuple[FindingRemedy, ...]) -> Finding:
    if remedies == finding.remedies:
        return finding
    other, end = replace(finding, remedies=remedies), compose(hints=finding.hints)
    if not finding.message.endswith(end):
        return other
    head = finding.message.removesuffix(end).rstrip() if end else finding.message
    return replace(other, message=compose(head, compose(hints=other.hints)))


def helping_trial(finding: Finding, remedy: Remedy) -> FindingRemedy | None:
    """The trial of the change that a fix makes, on all calls of the run; None if none has helped."""
    fix = of_candidate(remedy)
    tried = (entry for entry in finding.remedies if entry.state is RemedyState.TRIED)
    return next((entry for entry in tried if _is_same_change(entry, fix)), None)


def refused_in_a_trial(finding: Finding, remedy: Remedy) -> str:
    """Why a trial has refused the change that a fix makes, unless that helps together with others; else empty."""
    fix = of_candidate(remedy)
    same = next((entry for entry in finding.remedies if _is_same_change(entry, fix)), None)
    if same is None or _join(same, fix).state is not RemedyState.REFUSED:
        return ""
    tried = (entry.cure for entry in finding.remedies if entry.state is RemedyState.TRIED and entry.cure)
    return "" if any(same.cure in cure.changes for cure in tried) else same.why


def _is_same_change(remedy: FindingRemedy, fix: FindingRemedy) -> bool:
    kind = _CURE_KINDS.get(fix.kind, fix.kind)
    return remedy.cure is not None and (kind, {*fix.values}) == (remedy.kind, {*remedy.values})


def is_entry_of(entry: FindingRemedy, remedy: Remedy) -> bool:
    """Whether an entry of the list is a fix; one that joins a trial has the title of the advice."""
    is_change = entry.is_fix and (entry.kind, entry.values) == (remedy.kind, remedy.values)
    return is_change and (entry.text == remedy.title or entry.cure is not None)


def _join(cure: FindingRemedy, fix: FindingRemedy) -> FindingRemedy:
    """One entry for a change that a trial and a fix make."""
    goal = cure.cure.goal if cure.cure is not None else CureGoal.COMPILES
    if fix.state is RemedyState.VERIFIED:
        return replace(fix, counts=fix.counts or cure.counts, cure=cure.cure)
    if fix.state is RemedyState.REFUSED and (fix.is_fix or cure.state is not RemedyState.REFUSED):
        # A person may know what the source does not show, but a setting is the same for whoever makes it.
        is_a_persons = not fix.is_fix and goal is CureGoal.COMPILES
        if is_a_persons or (fix.why.startswith(UNVERIFIED) and cure.state is RemedyState.TRIED):
            return replace(cure, unwritten=fix.why)
        return replace(fix, cure=cure.cure) if fix.is_fix else fix
    if cure.state is RemedyState.TRIED:
        cost = ". ".join(filter(None, (cure.cost, fix.cost)))
        changes = fix.changes_behavior
        return replace(
            cure, kind=fix.kind, cost=cost, is_fix=True, changes_behavior=changes, values=fix.values
        )
    may_be_progress = fix.is_fix and goal is CureGoal.BREAKS and cure.why.startswith(MOVED_BREAKS)
    if cure.state is RemedyState.REFUSED and not may_be_progress:
        return replace(cure, text=fix.text, kind=fix.kind, is_fix=fix.is_fix, values=fix.values)
    # A setting that moves a break to code that ran in eager mode before is progress, which a verification sees. Where a
    # recompilation is to go, a new break is none.
    is_moved = cure.state is RemedyState.REFUSED
    return replace(fix, why=f"{IN_A_TRIAL}{cure.why}" if is_moved else cure.why, cure=cure.cure)


def _left(
    finding: Finding, remedies: Iterable[FindingRemedy], fixes: Iterable[FindingRemedy]
) -> Iterator[FindingRemedy]:
    """What the list has besides its fixes; the advice on a break goes where all that it may mean was refused.

    No advice means a setting alone.
    """
    written = [fix for fix in fixes if fix.is_fix and not fix.why.startswith(NOT_REACHED)]
    is_all = {fix.state for fix in written} == {RemedyState.REFUSED} and any(
        fix.cure is None for fix in written
    )
    is_refused = is_all and finding.code.startswith(BREAKS)
    for remedy in remedies:
        if remedy.state is not RemedyState.ADVICE or not is_refused:
            yield remedy
