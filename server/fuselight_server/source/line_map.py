"""Which line of a run each line of a file is now, so that everything known by line moves with edits at once.

Invariant: a line counts as a line of the run only while no edit has touched its text. An edit costs the lines that it
replaces, however much is known of the file.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from fuselight_server.base.files import split_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight_server.source.text_changes import Change


class LineMap:
    """The lines of one file, each with its line in the text that ran; lines after the last known one have none."""

    def __init__(self, count: int) -> None:
        """Start with the text that ran, of which the first `count` lines matter."""
        self._count = count
        self.reset()

    @classmethod
    def between(cls, old: str, new: str) -> LineMap:
        """The lines of `new`, each with its line in `old`, which counts as the text that ran."""
        before, after = split_text(old), split_text(new)
        line_map = cls(len(before))
        line_map._then = [0] * len(after)
        for block in difflib.SequenceMatcher(None, before, after, autojunk=False).get_matching_blocks():
            line_map._then[block.b : block.b + block.size] = range(block.a + 1, block.a + block.size + 1)
        return line_map

    def reset(self) -> None:
        """Take the text of the run again."""
        self._then = list(range(1, self._count + 1))

    def then(self, line: int) -> int:
        """Return the line of the run that the 1-based `line` is; 0 for a line that is new or was edited."""
        return self._then[line - 1] if 0 < line <= len(self._then) else 0

    def now(self, line: int, first: int, last: int) -> int | None:
        """Return where the run's lines `first` to `last` begin now, if all are there, unedited and in their order.

        `line` is where one of them is now.
        """
        start = line - (self.then(line) - first)
        if start < 1 or self._then[start - 1 : start + last - first] != list(range(first, last + 1)):
            return None
        return start

    def places(self, then: int) -> range:
        """Return where the run's line `then` may be now: one line if it is as it ran, else those in its place."""
        first, last = 0, len(self._then) + 1
        for line, known in self.lines():
            if known == then:
                return range(line, line + 1)
            if known > then:
                last = line
                break
            first = line
        return range(first + 1, max(last, first + 2))

    def lines(self) -> Iterator[tuple[int, int]]:
        """Yield each line that is as it ran, and its line in the run."""
        return ((line, then) for line, then in enumerate(self._then, 1) if then)

    def apply_edit(self, change: Change) -> None:
        """Follow one change of the text."""
        (first, _), (last, end_column), (new_last, new_column) = change.start, change.end, change.new_end
        if first > len(self._then) or change.start == change.end == change.new_end:
            return
        keeps_first = change.start_at_line_end and change.adds_line_first
        keeps_last = end_column == 0 and new_column == 0 and not (keeps_first and first == last)
        lines = [0] * (new_last - first + 1)
        if keeps_first:
            lines[0] = self.then(first)
        if keeps_last:
            lines[-1] = self.then(last)
        self._then[first - 1 : last] = lines
