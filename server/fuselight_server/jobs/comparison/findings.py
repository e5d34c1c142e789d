"""Findings of two jobs: new, fixed, moved and equal ones.

Invariant: each finding is in one change. What identifies a finding is its fingerprint, as in a baseline, with the text
of the line that the log quotes, and its function; local lines do not count, as the jobs can have run other source.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuselight_server.base.fingerprints import fingerprint_of
from fuselight_server.jobs.comparison.model import FindingChange, FindingState
from fuselight_server.jobs.comparison.sides import last_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight_server.base.finding import Finding
    from fuselight_server.jobs.comparison.sides import ComparedSide

_ORDER = tuple(FindingState)


@dataclass(frozen=True)
class _Identified:
    """A finding, and what it is known by."""

    finding: Finding
    path: str
    function: str | None
    text: str | None
    subject: str

    @property
    def line(self) -> int:
        return self.finding.span.line

    @property
    def content(self) -> Hashable:
        """Everything but the line's number."""
        return self.function, self._fingerprint(self.text or "", self.subject)

    @property
    def without_text(self) -> Hashable:
        """For lines of which a log does not quote the text."""
        return self.function, self._fingerprint("", self.subject)

    @property
    def without_subject(self) -> Hashable | None:
        """For releases of torch that word a finding differently."""
        return None if self.text is None else (self.function, self._fingerprint(self.text, ""))

    def _fingerprint(self, text: str, subject: str) -> str:
        return fingerprint_of(self.path, self.finding.code, "", text, subject)


_Key = Callable[["_Identified"], "Hashable | None"]
_Pair = tuple["_Identified", "_Identified"]
_MayBeSame = Callable[["_Identified", "_Identified"], bool]


def compare_findings(
    after: ComparedSide, before: ComparedSide, *, is_same_torch: bool
) -> tuple[FindingChange, ...]:
    """The findings of both jobs: new, fixed, moved, equal; by place within each."""
    ours, theirs = list(_identify(after)), list(_identify(before))
    changes = [
        _change(pair)
        for key, may_be_same in _keys(is_same_torch=is_same_torch)
        for pair in _take_pairs(ours, theirs, key, may_be_same)
    ]
    changes += [
        FindingChange(FindingState.NEW, item.finding, None, item.function, item.text) for item in ours
    ]
    changes += [
        FindingChange(FindingState.FIXED, item.finding, item.finding, item.function, item.text)
        for item in theirs
    ]
    return tuple(
        sorted(
            changes,
            key=lambda change: (
                _ORDER.index(change.state),
                change.finding.span.path,
                change.finding.span.start,
                change.finding.code,
            ),
        )
    )


def _keys(*, is_same_torch: bool) -> Iterator[tuple[_Key, _MayBeSame]]:
    """What findings of a pair have in common, and what else must hold, the surest first."""
    yield lambda item: (item.content, item.line, item.finding.title), lambda *_: True
    yield lambda item: (item.content, item.line), lambda *_: True
    yield lambda item: item.content, lambda *_: True
    yield lambda item: (item.without_text, item.line), _is_text_unknown
    yield lambda item: item.without_text, _is_text_unknown
    if not is_same_torch:
        yield lambda item: item.without_subject, lambda *_: True


def _is_text_unknown(item: _Identified, other: _Identified) -> bool:
    return item.text is None or other.text is None


def _identify(side: ComparedSide) -> Iterator[_Identified]:
    names = side.functions_of_lines()
    classes = {
        frame.function
        for process in side.processes
        for frame in process.report.frames
        if "." in frame.function
    }
    for finding in (item for folded in side.findings for item in (folded, *folded.also_at)):
        path, line = finding.span.path, finding.span.line
        subject = finding.subject or finding.title
        for name in classes:
            subject = subject.replace(name, last_name(name))
        yield _Identified(
            finding, side.common_path(path), names.get((path, line)), side.quote(path, line), subject
        )


def _take_pairs(
    ours: list[_Identified], theirs: list[_Identified], key: _Key, may_be_same: _MayBeSame
) -> Iterator[_Pair]:
    """The findings with an equal key, in the order of their lines; they are no longer in the lists."""
    by_key: dict[Hashable, list[_Identified]] = defaultdict(list)
    for item in sorted(theirs, key=lambda item: item.line):
        value = key(item)
        if value is not None:
            by_key[value].append(item)
    for item in sorted(ours, key=lambda item: item.line):
        candidates = by_key.get(key(item), [])
        other = next((candidate for candidate in candidates if may_be_same(item, candidate)), None)
        if other is not None:
            candidates.remove(other)
            ours.remove(item)
            theirs.remove(other)
            yield item, other


def _change(pair: _Pair) -> FindingChange:
    item, other = pair
    state = FindingState.SAME if item.line == other.line else FindingState.MOVED
    return FindingChange(state, item.finding, other.finding, item.function, item.text)
