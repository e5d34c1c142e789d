"""Who reads or writes an attribute of a class, in all sources of the workspace, also in those that did not run.

Invariant: the search reads texts and runs nothing. It finds each place that names the attribute, and each that may
reach it without its name; where there are more files than it may read, the attribute counts as used. A file that did
not change is not read again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fuselight.shared.foreign_files import read_regular
from fuselight_server.base.files import split_text
from fuselight_server.fixes.syntax.imports import LONGEST_FILE, MAX_FILES, other_files

_KEPT = 20_000
"""Answers that are kept, one a file and a word."""
_WORD = re.compile(r"[^\W\d]\w*")
_COMPUTED = re.compile(
    r"\b(?:get|set|has|del)attr\s*\(\s*[^,()]+(?:\([^()]*\))?\s*,\s*(?![\"'])|\bvars\s*\(|\b__dict__\b"
    r"|\b__getattr(?:ibute)?__\b|\b__setattr__\b|\battrgetter\s*\("
)
"""What may reach an attribute without its name."""
_KINDS = re.compile(r"\b(?:named_)?buffers\s*\(|\b_buffers\b|\binference_mode\b|\bcopy\.copy\s*\(")
"""What treats a buffer in another way than a number: copies share it, and code for buffers finds it."""
_CLASS = re.compile(r"^class\s+(\w+)\s*(?:\(([^)]*)\))?", re.MULTILINE)

_has_word: dict[tuple[str, str], tuple[tuple[int, int], bool]] = {}
"""Whether a file has a word, with the time and the size of the file."""


@dataclass(frozen=True)
class OwnedAttribute:
    """An attribute of `self` in one class, and the texts that may use it."""

    name: str
    owner: str
    """The name of the class."""
    has_plain_bases: bool
    """Whether the class has no base of the workspace, whose methods would use the attribute as their own."""
    path: str
    first: int
    last: int
    """The lines of the class, which are looked at elsewhere."""

    def use_elsewhere(self, text: str, others: Iterator[tuple[str, str | None]]) -> str:
        """The first place outside of the class that may use the attribute, as `train.py:3`; empty without one.

        `text`: the file of the class. `others`: the other files; a text of None stands for those that were not read.
        """
        lines = split_text(text)
        for line, is_named in self._uses(text, is_own=True):
            if not (is_named and self.first <= line <= self.last):
                return f"`{lines[line - 1].strip()}` on line {line}"
        for path, other in others:
            if other is None:
                return "a workspace of too many files"
            for line, _ in self._uses(other, is_own=False):
                return f"{Path(path).name}:{line}"
        return ""

    def _uses(self, text: str, *, is_own: bool) -> Iterator[tuple[int, bool]]:
        """The lines of a text that may use the attribute, and whether they name it."""
        knows = is_own or re.search(rf"\b{re.escape(self.owner)}\b", text) is not None
        named = re.compile(rf"(\bself)?\s*\.\s*{re.escape(self.name)}\b|[\"']{re.escape(self.name)}[\"']")
        strangers = self._strangers(text) if self.has_plain_bases else ()
        for match in named.finditer(text):
            line = text.count("\n", 0, match.end()) + 1
            is_stranger = match[1] is not None and (
                not knows or any(number <= line <= two for number, two in strangers)
            )
            if not is_stranger or not self.has_plain_bases:
                yield line, True
        if not knows:
            return
        for pattern in (_COMPUTED, _KINDS):
            for match in pattern.finditer(text):
                yield text.count("\n", 0, match.end()) + 1, False

    def _strangers(self, text: str) -> list[tuple[int, int]]:
        """The lines of classes that do not derive from the class."""
        classes = [(match[1], match[2] or "", match.start()) for match in _CLASS.finditer(text)]
        kin = {self.owner}
        for name, bases, _ in classes:
            if kin & set(_WORD.findall(bases)):
                kin.add(name)
        starts = [text.count("\n", 0, at) + 1 for _, _, at in classes]
        return [
            (start, _end_of_class(text, start))
            for (name, _, _), start in zip(classes, starts, strict=True)
            if name not in kin
        ]


def _end_of_class(text: str, start: int) -> int:
    """The last line of a class at top level."""
    lines = split_text(text)
    for number in range(start, len(lines)):
        if lines[number][:1].strip() and not lines[number].startswith((")", "#")):
            return number
    return len(lines)


def other_texts(
    path: str, name: str, roots: Sequence[str], known: Sequence[str], read: Callable[[str], str | None]
) -> Iterator[tuple[str, str | None]]:
    """The other sources that have a word, each with its text: those that ran, and those in the workspace.

    One with a text of None stands for more files than may be read.
    """
    seen = {path}
    for other in known:
        if other not in seen:
            seen.add(other)
            text = read(other)
            if text is not None and name in text:
                yield other, text
    for count, file in enumerate(other_files(path, roots)):
        if file is None or count >= MAX_FILES:
            yield "", None
            return
        if str(file) not in seen and _has(file, name):
            text = _text_of(file)
            if text is not None:
                yield str(file), text


def _has(file: Path, word: str) -> bool:
    """Whether a file has a word. A file that did not change is not read again."""
    try:
        stat = file.stat()
    except OSError:
        return False
    key, stamp = (str(file), word), (stat.st_mtime_ns, stat.st_size)
    kept = _has_word.get(key)
    if kept is not None and kept[0] == stamp:
        return kept[1]
    has_word = re.search(rf"\b{re.escape(word)}\b", _text_of(file) or "") is not None
    _has_word[key] = stamp, has_word
    while len(_has_word) > _KEPT:
        _has_word.pop(next(iter(_has_word)), None)  # another thread may have removed it
    return has_word


def _text_of(file: Path) -> str | None:
    try:
        return read_regular(file, LONGEST_FILE).decode("utf-8", "replace")
    except OSError:
        return None
