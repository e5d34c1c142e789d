"""Facts of a capture that move with edits: what an expression was when it was traced, at where it is now.

Invariant: a fact is returned only while no line of its expression was edited. A file that changed in an unknown way has
no facts until its text is the text of the run again.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

from fuselight.shared.report import Branch, Fact, FileFacts, TracedFacts
from fuselight_server.source.line_map import LineMap
from fuselight_server.source.text_changes import Change

T = TypeVar("T", Fact, Branch)

MAX_FACTS = 200_000
"""Facts that a server keeps, the newest captures first: some 100 MB."""


@dataclass
class TrackedFile:
    """The facts of one file, with where its lines are now."""

    facts: FileFacts
    lines: LineMap
    is_lost: bool = False
    """Whether the file changed, and nobody knows how."""

    @cached_property
    def _starts(self) -> dict[int, list[Fact]]:
        """Facts by their first line in the run."""
        facts: dict[int, list[Fact]] = collections.defaultdict(list)
        for fact in self.facts.facts:
            facts[fact.line].append(fact)
        return facts

    @cached_property
    def _long(self) -> list[Fact]:
        """Facts of expressions that take several lines."""
        return [fact for fact in self.facts.facts if fact.end_line > fact.line]

    @cached_property
    def _known(self) -> set[int]:
        """Lines of the run with an expression that was traced, or a part of one."""
        spans = [(fact.line, fact.end_line) for fact in self.facts.facts]
        spans += [(branch.line, branch.end_line) for branch in self.facts.branches]
        return {line for first, last in set(spans) for line in range(first, last + 1)}

    def fact_at(self, line: int, column: int) -> Fact | None:
        """Return the fact of the smallest expression at a position, with its span where it is now."""
        then = self._then(line)
        near = [*self._starts.get(then, ()), *(fact for fact in self._long if fact.line < then)]
        return self._moved(_smallest(near, then, column), line)

    def branches_on(self, line: int) -> Iterator[Branch]:
        """Yield the branches whose spans include a line, with their spans where they are now."""
        then = self._then(line)
        for branch in self.facts.branches:
            if branch.line <= then <= branch.end_line:
                now = self._moved(branch, line)
                if now is not None:
                    yield now

    def starting_on(self, line: int) -> Iterator[Fact]:
        """Yield the facts of expressions that start on a line."""
        for fact in self._starts.get(self._then(line), ()):
            now = self._moved(fact, line)
            if now is not None:
                yield now

    def knows(self, line: int) -> bool:
        """Whether an expression of a line, or a part of one, was traced."""
        return self._then(line) in self._known

    def untraced(self) -> list[int]:
        """Return the lines, as they are now, that no trace reached."""
        if self.is_lost or not self.facts.untraced:
            return []
        missed = {line for first, last in self.facts.untraced for line in range(first, last + 1)}
        return [line for line, then in self.lines.lines() if then in missed]

    def is_whole(self, first: int, last: int) -> bool:
        """Whether the lines from `first` to `last` are lines of the run, none edited, added or removed."""
        then = self._then(first)
        return then > 0 and self.lines.now(first, then, then + last - first) == first

    def _then(self, line: int) -> int:
        return 0 if self.is_lost else self.lines.then(line)

    def _moved(self, value: T | None, line: int) -> T | None:
        """Return a fact with its lines where they are now; `line` is where one of them is now."""
        start = None if value is None else self.lines.now(line, value.line, value.end_line)
        if value is None or start is None:
            return None
        return replace(value, line=start, end_line=start + value.end_line - value.line)


def _smallest(facts: Iterable[Fact], line: int, column: int) -> Fact | None:
    at = (line, column)
    facts_there = [
        fact for fact in facts if (fact.line, fact.column) <= at <= (fact.end_line, fact.end_column)
    ]
    return min(facts_there, key=_size, default=None)


def _size(fact: Fact) -> tuple[int, int, bool]:
    """Order spans by size; of a name, the value that an assignment gives comes first."""
    columns = fact.end_column - fact.column if fact.line == fact.end_line else 0
    return fact.end_line - fact.line, columns, not fact.assigned


class TrackedFacts:
    """The facts of one capture, by file."""

    def __init__(self, facts: TracedFacts | None = None) -> None:
        """Start at the text that ran."""
        self.facts = facts or TracedFacts()
        self._files = {
            path: TrackedFile(file, LineMap(_last(file))) for path, file in self.facts.files.items()
        }

    @property
    def count(self) -> int:
        """How many there are."""
        return sum(len(file.facts.facts) for file in self._files.values())

    def of(self, path: str) -> TrackedFile | None:
        """Return the facts of a file; None where there are none."""
        file = self._files.get(path)
        return None if file is None or file.is_lost else file

    def apply_edit(self, path: str, change: Change) -> None:
        """Follow one change of a file's text."""
        file = self._files.get(path)
        if file is not None:
            file.lines.apply_edit(change)

    def lose(self, path: str) -> None:
        """Hide the facts of a file that changed in an unknown way."""
        file = self._files.get(path)
        if file is not None:
            file.is_lost = True

    def reset(self, path: str) -> None:
        """Return every fact of a file to where it was: the file has the text of the run again."""
        file = self._files.get(path)
        if file is not None:
            file.is_lost = False
            file.lines.reset()


def _last(file: FileFacts) -> int:
    """Return the last line of a file that anything is known of."""
    ends = [fact.end_line for fact in file.facts] + [branch.end_line for branch in file.branches]
    return max([*ends, *(last for _, last in file.untraced)], default=0)
