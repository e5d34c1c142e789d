"""Which lines of a file are new since it ran, and which of the old lines each of them replaces.

Invariant: a line that counts as old has the bytes of its line in the run, and old lines keep their order.
"""

from __future__ import annotations

import bisect
import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from fuselight_server.source.document import lines_of

_LONGEST = 600
"""Lines between the first and the last difference that are compared; beyond that all of them count as new."""
_LARGEST = 2_000_000
"""Characters of a file whose edits are read."""


@dataclass(frozen=True)
class Hunk:
    """New lines, and the old lines in whose place they are; each first and last, 1-based, empty if last < first."""

    first: int
    last: int
    old_first: int
    old_last: int


@dataclass(frozen=True)
class EditedText:
    """A text that ran, and what became of it."""

    old: Sequence[bytes]
    new: Sequence[bytes]
    hunks: tuple[Hunk, ...]

    @classmethod
    def of(cls, ran: str, now: str) -> EditedText | None:
        """Compare two texts; None if they are too large to be compared at each keystroke."""
        if max(len(ran), len(now)) > _LARGEST:
            return None
        old, new = lines_of(ran), lines_of(now)
        short = min(len(old), len(new))
        head = next((at for at in range(short) if old[at] != new[at]), short)
        rest = short - head
        tail = next((at for at in range(rest) if old[-1 - at] != new[-1 - at]), rest)
        was, became = old[head : len(old) - tail], new[head : len(new) - tail]
        if max(len(was), len(became)) > _LONGEST:
            return cls(old, new, (Hunk(head + 1, len(new) - tail, head + 1, len(old) - tail),))
        changes = difflib.SequenceMatcher(None, was, became, autojunk=False).get_opcodes()
        hunks = tuple(
            Hunk(head + new_start + 1, head + new_end, head + start + 1, head + end)
            for kind, start, end, new_start, new_end in changes
            if kind != "equal"
        )
        return cls(old, new, hunks)

    @property
    def has_new_lines(self) -> bool:
        """Whether there is any line that did not run."""
        return any(hunk.first <= hunk.last for hunk in self.hunks)

    @cached_property
    def _starts(self) -> list[int]:
        return [hunk.first for hunk in self.hunks]

    def hunk_of(self, line: int) -> Hunk | None:
        """The hunk of a new line; None for an old one."""
        at = bisect.bisect_right(self._starts, line) - 1
        hunk = self.hunks[at] if at >= 0 else None
        return hunk if hunk is not None and line <= hunk.last else None

    def then(self, line: int) -> int:
        """The line of the run that a line is; 0 for a new one."""
        at = bisect.bisect_right(self._starts, line) - 1
        if at < 0:
            return line
        hunk = self.hunks[at]
        return 0 if line <= hunk.last else line - hunk.last + hunk.old_last

    def is_new(self, first: int, last: int) -> bool:
        """Whether one of these lines is new, or stands next to a line that was removed between them."""
        return any(hunk.first <= last and max(hunk.last, hunk.first - 1) >= first for hunk in self.hunks)
