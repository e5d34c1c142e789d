"""Runs the program with the text of each fix that nothing has verified: whether it still runs, and compiles more.

Invariant: what helps here is tried, not verified. Of the results, only the sums of what the first calls return are
compared: a verification compares all values, state, gradients and further calls. What makes the program fail, or
compile less, is refused in the words that a verification has for it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Iterator

from fuselight.shared.protocol import CaptureRequest, RunRequest
from fuselight.shared.report import CureRun, Report
from fuselight_server.base.finding import Finding, rank
from fuselight_server.base.remedies import FindingRemedy, RemedyState
from fuselight_server.execution.runs.planning import with_texts
from fuselight_server.explain.findings import findings
from fuselight_server.explain.findings.advice.trial_verdict import new_failures, same_results
from fuselight_server.explain.findings.common.counts import counts
from fuselight_server.explain.findings.fixable import FixClass, has_remedies
from fuselight_server.fixes.rewrites.families import Remedy, rewrites
from fuselight_server.fixes.verification.attempts import effect
from fuselight_server.fixes.verification.finding_changes import finding_changes
from fuselight_server.fixes.verification.fixed_texts import FixedTexts
from fuselight_server.fixes.verification.progress import CompileProgress
from fuselight_server.fixes.verification.remedy_list import is_entry_of, of_candidate, with_fixes
from fuselight_server.fixes.verification.whole_programs import REFUSED
from fuselight_server.source.line_map import LineMap

MAX_TEXTS = 12
"""Texts of one target that are run."""
_MAX_OF_FINDING = 2
"""Texts of one finding that are run: further ones are seldom better, and others wait."""


async def try_texts(
    report: Report,
    without: Report,
    request: RunRequest,
    run: Callable[[RunRequest], Awaitable[Report]],
    *,
    read: Callable[[str], str | None],
    may_go_on: Callable[[], bool],
    show: Callable[[str], None],
) -> dict[Finding, tuple[FindingRemedy, ...]]:
    """What came of the fixes of each finding, those of the worst findings first.

    `without`: the report of a trial of no change, which has fewer facts. `run` makes the calls; `may_go_on`: whether
    there is time for a run.
    """
    tried: dict[Finding, tuple[FindingRemedy, ...]] = {}
    texts = FixedTexts(read)
    for number, (finding, remedy) in enumerate(_pending(report, without, texts)):
        if number == MAX_TEXTS or not may_go_on():
            break
        show(f"fix {number + 1}: {remedy.title}")
        calls = without.trial.calls if without.trial is not None else None
        changed = with_texts(request, remedy.texts)
        if not isinstance(changed, CaptureRequest):
            break
        new = await run(dataclasses.replace(changed, trial=CureRun(None, calls)))
        entry = _judged(finding, remedy, without, new, texts)
        if entry is not None:
            tried[finding] = (*tried.get(finding, ()), entry)
    return tried


def may_try_texts(report: Report, read: Callable[[str], str | None]) -> bool:
    """Whether a finding of a report has a fix of which neither a trial nor a verification says anything."""
    return any(True for _ in _pending(report, report, FixedTexts(read)))


def _pending(report: Report, without: Report, texts: FixedTexts) -> Iterator[tuple[Finding, Remedy]]:
    """The fixes of which neither a trial nor a verification says anything, each with the finding of the trial."""
    read_line = texts.line_reader()
    known = {finding.identity: finding for finding in findings(without, read_line=read_line)}
    for finding in sorted(findings(report, read_line=read_line), key=rank):
        same = known.get(finding.identity)
        if same is None or not has_remedies(finding.code):
            continue
        remedies = rewrites(finding, report, texts.text).remedies
        listed = with_fixes(finding, map(of_candidate, remedies)).remedies
        open_entries = [entry for entry in listed if entry.is_pending and entry.is_unproven]
        wanted = (item for item in remedies if any(is_entry_of(entry, item) for entry in open_entries))
        for _, remedy in zip(range(_MAX_OF_FINDING), wanted, strict=False):
            yield same, remedy


def _judged(
    finding: Finding, remedy: Remedy, without: Report, new: Report, texts: FixedTexts
) -> FindingRemedy | None:
    """The fix with what its run shows; None if that shows neither that it helps nor that it harms."""
    old_counts, new_counts = without.trial, new.trial
    if old_counts is None or new_counts is None:
        return None
    lines = {path: LineMap.between(texts.text(path) or "", text) for path, text in remedy.texts.items()}
    progress = CompileProgress(without, new, lines)
    changes = finding_changes(
        *(finding, findings(without, read_line=texts.line_reader())),
        *(findings(new, read_line=texts.line_reader(remedy.texts)), progress),
        moves_break=remedy.moves_break,
    )
    is_other = remedy.fix_class is not FixClass.CHANGES and not same_results(old_counts, new_counts)
    of_program = REFUSED.get(changes.why, changes.why)
    why = next(new_failures(without, new), "") or of_program or ("the results differ" if is_other else "")
    entry = of_candidate(remedy)
    if why:
        return dataclasses.replace(entry, state=RemedyState.REFUSED, why=why)
    shown = effect(counts(without), counts(new), progress.traced)
    if not shown or (old_counts.calls != new_counts.calls and not without.failures):
        return None
    return dataclasses.replace(entry, state=RemedyState.TRIED, counts=shown)
