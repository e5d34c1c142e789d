"""Findings of two jobs, or of two runs with different releases of torch: new, fixed, moved and equal ones.

Invariant: each finding is in one change. What identifies a finding is its fingerprint, as in a baseline, with the text
of the line that ran, and its function. In jobs local lines do not count, as the jobs can have run other source. Between
releases of torch, the wording of a finding and torch's own ID of its cause do not count if the line is the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass

from fuselight_server.base.finding import Finding
from fuselight_server.base.fingerprints import fingerprint_of
from fuselight_server.jobs.comparison.model import FindingChange, FindingState
from fuselight_server.jobs.comparison.sides import ComparedSide
from fuselight_server.jobs.reports.moved_lines import last_name

_ORDER = tuple(FindingState)
_BREAK_WITHOUT_ID = "FL107"


@dataclass(frozen=True)
class IdentifiedFinding:
    """A finding, and what it is known by."""

    finding: Finding
    path: str
    function: str | None
    text: str | None
    subject: str

    @property
    def line(self) -> int:
        """Line of the finding."""
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

    @property
    def by_cause(self) -> Hashable | None:
        """For releases of torch that give the cause of a graph break another ID."""
        if self.text is None or not _is_graph_break(self.finding.code):
            return None
        return self.function, self.path, self.line, self.text

    def _fingerprint(self, text: str, subject: str) -> str:
        return fingerprint_of(self.path, self.finding.code, "", text, subject)


def _is_graph_break(code: str) -> bool:
    return code.startswith("GB") or code == _BREAK_WITHOUT_ID


_Key = Callable[["IdentifiedFinding"], "Hashable | None"]
_Pair = tuple["IdentifiedFinding", "IdentifiedFinding"]
_MayBeSame = Callable[["IdentifiedFinding", "IdentifiedFinding"], bool]


def compare_findings(
    after: ComparedSide, before: ComparedSide, *, is_same_torch: bool
) -> tuple[FindingChange, ...]:
    """The findings of both jobs: new, fixed, moved, equal; by place within each."""
    return pair_findings(_identify(after), _identify(before), is_same_torch=is_same_torch)


def pair_findings(
    after: Iterable[IdentifiedFinding],
    before: Iterable[IdentifiedFinding],
    *,
    is_same_torch: bool,
    is_same_source: bool = False,
) -> tuple[FindingChange, ...]:
    """The findings of two runs: new, fixed, moved, equal; by place within each.

    `is_same_source`: both ran the same text, so that a finding can have moved to a line with another text.
    """
    ours, theirs = list(after), list(before)
    keys = _keys(is_same_torch=is_same_torch, is_same_source=is_same_source)
    changes = [
        _change(pair) for key, may_be_same in keys for pair in _take_pairs(ours, theirs, key, may_be_same)
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


def _keys(*, is_same_torch: bool, is_same_source: bool) -> Iterator[tuple[_Key, _MayBeSame]]:
    """What findings of a pair have in common, and what else must hold, the surest first."""
    yield lambda item: (item.content, item.line, item.finding.title), lambda *_: True
    yield lambda item: (item.content, item.line), lambda *_: True
    yield lambda item: item.content, lambda *_: True
    yield lambda item: (item.without_text, item.line), _is_text_unknown
    yield lambda item: item.without_text, _is_text_unknown
    if not is_same_torch:
        yield lambda item: item.without_subject, lambda *_: True
        yield lambda item: item.by_cause, lambda *_: True
    if is_same_source:
        yield lambda item: item.without_text, lambda *_: True


def _is_text_unknown(item: IdentifiedFinding, other: IdentifiedFinding) -> bool:
    return item.text is None or other.text is None


def _identify(side: ComparedSide) -> Iterator[IdentifiedFinding]:
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
        yield IdentifiedFinding(
            finding, side.common_path(path), names.get((path, line)), side.quote(path, line), subject
        )


def _take_pairs(
    ours: list[IdentifiedFinding], theirs: list[IdentifiedFinding], key: _Key, may_be_same: _MayBeSame
) -> Iterator[_Pair]:
    """The findings with an equal key, in the order of their lines; they are no longer in the lists."""
    by_key: dict[Hashable, list[IdentifiedFinding]] = defaultdict(list)
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
