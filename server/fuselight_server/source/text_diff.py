"""What differs between two texts, as few and as small replacements: lines that are in both count as untouched.

Formatters, reverts, pastes and clients that send whole texts replace far more than they change. Invariant: the
replacements, made from the last to the first, turn the old text into the new one.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

_LAYOUT = re.compile(r"[\s'\"]+")
"""What a formatter changes within a line."""
_TOKEN = re.compile(r"\r\n|\n|[^\S\n\r]+|\w+|.", re.DOTALL)
_WORD = re.compile(r"\w+")
_SIMILAR = 0.5
"""Part of the words of two blocks that must be in both, so that one counts as a form of the other."""
_MAX_TOKENS = 1_500
"""Tokens of a block that are compared: at worst, 0.1 s on the event loop. A longer one counts as rewritten."""
_MAX_CHARACTERS = 4_000

Place = tuple[int, int]
"""Row and column in UTF-8 bytes, both from the start of the old text."""


@dataclass(frozen=True)
class Replacement:
    """The old text from `start` to `end` becomes `text`."""

    start: Place
    end: Place
    text: str
    is_line_end: bool = False
    """Whether it replaces the end of a line by another kind of end, as LF by CRLF."""


@dataclass(frozen=True)
class _Block:
    """Lines of the old text, from `row` on, and those in their place."""

    row: int
    old: list[str]
    new: list[str]
    is_equal: bool


def replacements(old: str, new: str) -> list[Replacement]:
    """Return what turns `old` into `new`, from the last place to the first. Neither text has a lone CR."""
    whole = _Block(0, _lines(old), _lines(new), is_equal=False)
    replacements: list[Replacement] = []
    for block in _aligned(whole, _without_line_end):
        replacements += _line_ends(block) if block.is_equal else _in_changed(block)
    # Lines that are new after the last one begin where that ends: in the text around, another line may follow it.
    end = _after((0, 0), old)
    return [
        replace(item, start=min(item.start, end), end=min(item.end, end)) for item in reversed(replacements)
    ]


def _lines(text: str) -> list[str]:
    """Lines with their ends; the last one has none."""
    *lines, last = text.split("\n")
    return [*(f"{line}\n" for line in lines), last]


def _without_line_end(line: str) -> str:
    return line[:-2] + "\n" if line.endswith("\r\n") else line


def _layout_left_out(line: str) -> str:
    return _LAYOUT.sub("", line)


def _aligned(block: _Block, key: Callable[[str], str]) -> Iterator[_Block]:
    """Split a block at the lines that have the same key in both texts.

    A formatter, a revert or a client with full sync replaces the whole text to change a few lines, so the equal head
    and tail are cut off first: the matcher takes quadratic time.
    """
    old, new = [key(line) for line in block.old], [key(line) for line in block.new]
    short = min(len(old), len(new))
    head = next((at for at in range(short) if old[at] != new[at]), short)
    tail = next((at for at in range(short - head) if old[-1 - at] != new[-1 - at]), short - head)
    last, new_last = len(old) - tail, len(new) - tail
    # Lines that a long text has often, as empty ones, are no anchors: comparing them all would take seconds.
    middle = difflib.SequenceMatcher(None, old[head:last], new[head:new_last]).get_opcodes()
    shifted = [(kind, a + head, b + head, c + head, d + head) for kind, a, b, c, d in middle]
    ends = (("equal", 0, head, 0, head), *shifted, ("equal", last, len(old), new_last, len(new)))
    for kind, start, end, new_start, new_end in ends:
        if start < end or new_start < new_end:
            lines = block.old[start:end], block.new[new_start:new_end]
            yield _Block(block.row + start, *lines, is_equal=kind == "equal")


def _line_ends(block: _Block) -> Iterator[Replacement]:
    for row, (old, new) in enumerate(zip(block.old, block.new, strict=True), block.row):
        if old != new:
            column = _size(old.rstrip("\r\n"))
            end = "\r\n" if new.endswith("\r\n") else "\n"
            yield Replacement((row, column), (row + 1, 0), end, is_line_end=True)


def _in_changed(block: _Block) -> Iterator[Replacement]:
    for part in _aligned(block, _layout_left_out):
        if part.is_equal:
            for row, (old, new) in enumerate(zip(part.old, part.new, strict=True), part.row):
                yield from _by_token(row, old, new)
        else:
            yield from _in_rewritten(part)


def _in_rewritten(block: _Block) -> Iterator[Replacement]:
    """Compare tokens where much is in both; else lines one by one, or all of the old ones are gone."""
    old, new = "".join(block.old), "".join(block.new)
    is_short = max(len(old), len(new)) < _MAX_CHARACTERS
    if not old or not new or (is_short and (len(block.old) == 1 or _is_similar(old, new))):
        yield from _by_token(block.row, old, new)
    elif len(block.old) == len(block.new):
        for row, lines in enumerate(zip(block.old, block.new, strict=True), block.row):
            yield from _by_token(row, *lines)
    else:
        start, end = (block.row, 0), _after((block.row, 0), old)
        yield Replacement(start, end, "")
        yield Replacement(end, end, new)


def _is_similar(old: str, new: str) -> bool:
    words = _WORD.findall(old), _WORD.findall(new)
    return difflib.SequenceMatcher(None, *words, autojunk=False).ratio() >= _SIMILAR


def _by_token(row: int, old: str, new: str) -> Iterator[Replacement]:
    before, after = _tokens(old), _tokens(new)
    places = [(row, 0)]
    for token in before:
        places.append(_after(places[-1], token))
    for kind, start, end, new_start, new_end in difflib.SequenceMatcher(
        None, before, after, autojunk=False
    ).get_opcodes():
        if kind != "equal":
            yield Replacement(places[start], places[end], "".join(after[new_start:new_end]))


def _tokens(text: str) -> Sequence[str]:
    """Tokens of a short text; a long one counts as one token, for its lines have been compared already."""
    tokens = _TOKEN.findall(text)
    return tokens if len(tokens) <= _MAX_TOKENS else [text]


def _after(place: Place, text: str) -> Place:
    """Where `text` ends that starts at `place`."""
    lines = text.count("\n")
    if not lines:
        return place[0], place[1] + _size(text)
    return place[0] + lines, _size(text.rpartition("\n")[2])


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
