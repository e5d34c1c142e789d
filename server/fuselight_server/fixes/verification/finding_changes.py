"""What a remedy does to the findings: whether its own is gone, which ones it causes, and which ones it uncovers.

Invariant: a new finding refuses a remedy unless it says nothing against the new text: one that is only information, one
that the old text had in other words, a recompilation if there are no more of them, and one in code that the old text
left in eager mode, if more is compiled now.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING

from fuselight_server.base.finding import Finding, Severity, Span

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fuselight_server.fixes.verification.progress import CompileProgress
    from fuselight_server.source.line_map import LineMap

_SHOWN = 120
"""Most characters of the title of another finding: torch's texts may have pages."""
_FIXED = frozenset({"FL301", "FL302"})
"""A size or a number is a constant of the compiled code: how often that compiles is what counts."""
_FULLGRAPH_BREAK = "FL404"
_RECOMPILED = "FL201"
STILL_THERE = "the finding is still there"
AS_OFTEN = "the calls that are repeated compile as often as before"
_COMMENT = "FL503"
"""An ignore comment silences nothing any more: that is what a fix is for."""


@dataclass(frozen=True)
class FindingChanges:
    """What became of the findings."""

    why: str = ""
    """Why they refuse the remedy; empty if they do not."""
    next: tuple[Finding, ...] = ()
    """Findings of the new text that the remedy uncovers."""


def finding_changes(
    finding: Finding,
    before: Iterable[Finding],
    after: Iterable[Finding],
    progress: CompileProgress,
    *,
    moves_break: bool,
    is_tried: bool = False,
) -> FindingChanges:
    """Find what a remedy of `finding` does to the findings `before` it.

    `moves_break`: whether it may only move a break to the next line that needs the value. `is_tried`: whether a trial
    has shown for all calls of the run that the function compiles less often, which a few repeated calls may not show.
    """
    left = list(after)
    gone: list[Finding] = []
    # The finding chooses last: of several like it on its line, those that are left may be the others.
    for old in sorted(before, key=lambda old: old == finding):
        match = _match(finding, old, left, progress.lines)
        is_there = match is not None and _is_on_a_line_of([old.span], match, progress.lines)
        if match is not None and old == finding and is_there and not (is_tried or _is_reduced(old, match)):
            return FindingChanges(AS_OFTEN if old.code == _RECOMPILED else STILL_THERE)
        if match is not None:
            left.remove(match)
        elif old != finding:
            gone.append(old)
    new = [other for other in left if _counts(other, progress) and not _has_old_words(other, gone, progress)]
    if finding.code == _RECOMPILED and not (is_tried or progress.recompiles_less):
        return FindingChanges(AS_OFTEN)  # for another cause, which failed with this one
    uncovered = uncovered_findings(new, progress, moves_break=moves_break)
    caused = next((other for other in new if other not in uncovered), None)
    if caused is not None:
        return FindingChanges(f"it causes another finding: {_words(progress.as_read(caused))}")
    return FindingChanges(next=tuple(map(progress.as_read, new)))


def uncovered_findings(
    new: Iterable[Finding], progress: CompileProgress, *, moves_break: bool
) -> tuple[Finding, ...]:
    """Those of the new findings that come next, because more of the program is compiled or traced."""
    is_progress = progress.is_more_compiled or (progress.traced is not None and not moves_break)
    return tuple(finding for finding in new if is_progress and _is_uncovered(finding, progress))


def _counts(new: Finding, progress: CompileProgress) -> bool:
    """Whether a new finding may speak against a text."""
    if new.severity < Severity.WARNING or new.code == _COMMENT:
        return False
    is_constant = new.code in _FIXED and new.severity < Severity.ERROR
    if new.code == _RECOMPILED and not progress.recompiles_more:
        return False  # another guard of a recompilation that there was before
    return not (is_constant and progress.keeps_static(new.subject))


def _is_uncovered(new: Finding, progress: CompileProgress) -> bool:
    is_break = new.code == _FULLGRAPH_BREAK and progress.fails_later
    return (new.severity < Severity.ERROR or is_break) and progress.uncovers(new)


def _has_old_words(new: Finding, gone: list[Finding], progress: CompileProgress) -> bool:
    """Whether a new finding is one of the old text on the same line, under another code; each counts once."""
    old = next(
        (
            old
            for old in gone
            if _family(old) == _family(new) and _is_on_a_line_of(_spans(old), new, progress.lines)
        ),
        None,
    )
    if old is not None:
        gone.remove(old)
    return old is not None


def _family(finding: Finding) -> str:
    """Breaks and code that is not compiled are one family, recompilations and their limit another."""
    code = finding.code
    if code in {"FL102", "FL201"}:
        return "recompiled"
    return "broken" if code.startswith(("GB", "FL1", _FULLGRAPH_BREAK)) else code[:3]


def _match(
    finding: Finding, old: Finding, left: list[Finding], lines: Mapping[str, LineMap]
) -> Finding | None:
    """The finding of the new text that is `old`: one with its title, if possible.

    One with the title of the finding that a remedy is for counts as another only if that has the same title.
    """
    same = [new for new in left if is_same_finding(old, new, lines)]
    others = (new for new in same if old == finding or new.title != finding.title)
    return next((new for new in same if new.title == old.title), None) or next(others, None)


def is_same_finding(old: Finding, new: Finding, lines: Mapping[str, LineMap]) -> bool:
    """Whether a finding of the new text is one of the old text, by its code and its lines, which may have moved.

    One cause at several places is one finding: a fix of its first place leaves the others.
    """
    return old.code == new.code and _is_on_a_line_of(_spans(old), new, lines)


def _is_on_a_line_of(spans: Iterable[Span], new: Finding, lines: Mapping[str, LineMap]) -> bool:
    now = {(span.path, span.line) for span in _spans(new)}
    return any(
        (span.path, line) in now
        for span in spans
        for line in (lines[span.path].places(span.line) if span.path in lines else (span.line,))
    )


def _spans(finding: Finding) -> list[Span]:
    return [finding.span, *(other.span for other in finding.also_at)]


def _is_reduced(old: Finding, new: Finding) -> bool:
    """Whether a function is compiled again less often: the first change of a number may cost one compile more."""
    return old.code == "FL201" and new.count < old.count


def _words(finding: Finding) -> str:
    """`GB0059 on m.py:39: graph break: ...`."""
    title = finding.title.partition("\n")[0]
    title = title if len(title) <= _SHOWN else f"{title[:_SHOWN]}..."
    return f"{finding_place(finding)}: {title}"


def finding_place(finding: Finding) -> str:
    """`GB0059 on m.py:39`."""
    return f"{finding.code} on {PurePath(finding.span.path).name}:{finding.span.line}"
