"""Bounds of answers: a list or a text that is cut says so, and how to get the rest.

Invariant: nothing is left out silently.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")

LONGEST_TEXT = 24_000
"""Characters of one text of an answer, as a diff or a kernel's source."""
_LONGEST_LINE = 300
_LONGEST_MESSAGE = 4_000
_END_OF_MESSAGE = 500


def bounded_message(text: str) -> str:
    """A refusal, which may repeat what the client gave: its beginning and its end, which says what to do."""
    if len(text) <= _LONGEST_MESSAGE:
        return text
    first, last = text[: _LONGEST_MESSAGE - _END_OF_MESSAGE], text[-_END_OF_MESSAGE:]
    return f"{first} ... ({len(text) - _LONGEST_MESSAGE:,} characters are left out) ... {last}"


@dataclass(frozen=True)
class ListPart(Generic[T]):
    """A part of a list."""

    items: tuple[T, ...]
    offset: int
    total: int

    @property
    def rest(self) -> str:
        """What was left out, and how to get it; empty if nothing was."""
        last = self.offset + len(self.items)
        if last >= self.total and not self.offset:
            return ""
        shown = f"{self.offset + 1:,} to {last:,}" if self.items else "none"
        more = f" For more, call again with `offset` {last}." if last < self.total else ""
        return f"Items shown: {shown} of {self.total:,}.{more}"


def part_of(items: Sequence[T], offset: int, limit: int) -> ListPart[T]:
    """The part of a list that a call asks for."""
    return ListPart(tuple(items[offset : offset + limit]), offset, len(items))


def short_line(line: str) -> str:
    """A line of source for an excerpt: one of data may have megabytes."""
    return line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}... ({len(line):,} characters)"


def bounded_text(text: str, most: int = LONGEST_TEXT) -> tuple[str, str]:
    """A text that is not too long, and what was cut of it, empty if nothing was. It is cut between two lines."""
    if len(text) <= most:
        return text, ""
    kept = text[: text.rfind("\n", 0, most) + 1] or text[:most]
    return kept, f"The first {len(kept):,} of {len(text):,} characters are shown."
