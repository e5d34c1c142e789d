"""Where the lines of a job are in a local file that was edited since the job ran.

Invariant: a line of which the job's text is known moves alone only within functions of its name, to the only line with
that text; a text that repeats moves with the lines around it, or stays.
"""

from __future__ import annotations

import bisect
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from fuselight_server.jobs.reports.definitions import LocalFunction

_DECORATORS = 10
"""Lines of decorators above a `def`, which is where torch says that a function starts."""


@dataclass
class SourceEvidence:
    """What the logs of a job show of one of its files."""

    quotes: dict[int, str] = field(default_factory=dict)
    """Line → its text without indentation."""
    functions: set[tuple[int, str]] = field(default_factory=set)
    """First line and name of compiled functions."""
    names: dict[int, str] = field(default_factory=dict)
    """Line → the function that has it, of quoted lines."""

    def add_quote(self, line: int, text: str, function: str | None) -> None:
        """Add the text of a line; the first one counts, as torch may quote a part of a later statement."""
        if line not in self.quotes:
            self.quotes[line] = text.strip()
            self.names[line] = last_name(function or "")


@dataclass(frozen=True)
class MovedLines:
    """The lines of one file of a job in a local file."""

    known: SourceEvidence
    lines: Sequence[str]
    read_functions: Callable[[], Collection[LocalFunction]]
    """The functions of the local file; called only if lines differ."""

    def here(self, line: int) -> int:
        """The local line of a line of the job."""
        if line in self._places:
            return self._places[line]
        shifts = self._shifts(line, self._places)
        moved = line + min(shifts, default=0)
        return moved if len(shifts) == 1 and 0 < moved <= len(self.lines) else line

    def quote(self, line: int) -> str | None:
        """What the job had on a local line, if its log quotes it."""
        return self._quotes.get(line)

    @cached_property
    def is_in_place(self) -> bool:
        """Whether every line and function that the log names has its text where it was."""
        return all(has_quote(self.lines, line, text) for line, text in self.known.quotes.items()) and all(
            has_function(self.lines, line, name) for line, name in self.known.functions
        )

    @cached_property
    def score(self) -> tuple[int, int]:
        """How many lines and functions of the log the file has, and how many of them where they were."""
        in_place = sum(has_quote(self.lines, line, text) for line, text in self.known.quotes.items())
        in_place += sum(has_function(self.lines, line, name) for line, name in self.known.functions)
        current = sum(
            has_quote(self.lines, self.here(line), text) for line, text in self.known.quotes.items()
        )
        current += sum(has_function(self.lines, self.here(line), name) for line, name in self.known.functions)
        return current, in_place

    @cached_property
    def _quotes(self) -> Mapping[int, str]:
        quotes: dict[int, str] = {}
        for line, text in self.known.quotes.items():
            here = self.here(line)
            if here not in quotes or has_quote(self.lines, here, text):
                quotes[here] = text
        return quotes

    @cached_property
    def _places(self) -> Mapping[int, int]:
        """Line of the job → local line, of the lines whose text decides it."""
        if self.is_in_place:
            return {}
        candidates = self._candidates()
        single = {line: places[0] for line, places in candidates.items() if len(places) == 1}
        taken = Counter(single.values())
        anchors = {line: place for line, place in single.items() if taken[place] == 1}
        places = dict(anchors)
        for line in candidates.keys() - anchors.keys():
            moved = {line + shift for shift in self._shifts(line, anchors)}.intersection(candidates[line])
            places[line] = moved.pop() if len(moved) == 1 else line
        return places

    def _candidates(self) -> dict[int, list[int]]:
        """Line of the job → the local lines that it may be; lines whose text is gone are left out."""
        functions: dict[str, list[LocalFunction]] = {}
        for function in self.read_functions():
            functions.setdefault(last_name(function.name), []).append(function)
        whole_file = range(1, len(self.lines) + 1)
        out: dict[int, list[int]] = {}
        for line, name in self.known.functions:
            out[line] = [function.first for function in functions.get(last_name(name), ())]
        for line, text in self.known.quotes.items():
            name = self.known.names.get(line, "")
            ranges = [range(item.first, item.last + 1) for item in functions.get(name, ())]
            if name.startswith("<"):  # of a module, a lambda or a comprehension
                ranges = [whole_file]
            elif not ranges:
                ranges = [range(line, line + 1)]
            places = {place for lines in ranges for place in lines if has_quote(self.lines, place, text)}
            out[line] = sorted(places)
        return {line: places for line, places in out.items() if places}

    @staticmethod
    def _shifts(line: int, anchors: Mapping[int, int]) -> set[int]:
        """By how much the nearest anchors above and below a line have moved."""
        known = sorted(anchors)
        at = bisect.bisect(known, line)
        return {anchors[near] - near for near in known[max(at - 1, 0) : at + 1]}


def last_name(function: str) -> str:
    """`forward` of `Net.forward`: a log alone may not know the class."""
    return function.rpartition(".")[2]


def has_quote(lines: Sequence[str], line: int, quote: str) -> bool:
    """Whether a line has the quoted text; torch quotes the first line of a statement, or all of its lines as one."""
    if not 0 < line <= len(lines):
        return False
    text = lines[line - 1].strip()
    return text == quote or (bool(text) and quote.startswith(text) and _joined(lines, line, quote))


def _joined(lines: Sequence[str], line: int, quote: str) -> bool:
    wanted = "".join(quote.split())
    text = ""
    for following in lines[line - 1 :]:
        text += "".join(following.split())
        if len(text) >= len(wanted):
            break
    return text.startswith(wanted)


def has_function(lines: Sequence[str], line: int, name: str) -> bool:
    """Whether a function of a name starts on a line."""
    head = re.compile(rf"\s*(?:async\s+)?def\s+{re.escape(last_name(name))}\b")
    first, *following = lines[max(line - 1, 0) : line + _DECORATORS] or ("",)
    return head.match(first) is not None or (
        first.lstrip().startswith("@") and any(map(head.match, following))
    )
