"""Other texts for cells in the file of a notebook.

Invariant: every byte stays but those of the lines that change: outputs, metadata, indentation, escapes, order of keys.
"""

from __future__ import annotations

import difflib
import itertools
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuselight.shared.notebooks.cells import NotebookError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fuselight_server.source.notebooks.edits import CellEdit

_BLANK = re.compile(r"[ \t\r\n]*")
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")
_DECODER = json.JSONDecoder()
_TEXTS = ("source", "input", "code")


@dataclass(frozen=True)
class _JsonSpan:
    """A value of the file, by its place in the text."""

    start: int
    end: int


@dataclass(frozen=True)
class SourcePlace:
    """The text of a code cell in its file."""

    value: _JsonSpan
    lines: tuple[_JsonSpan, ...]
    """The strings of a list of lines; empty where one string is the whole text."""


def source_places(text: str) -> tuple[SourcePlace, ...]:
    """Find the text of each code cell, in their order. Raises NotebookError."""
    try:
        return tuple(_places(text))
    except (ValueError, LookupError, RecursionError) as error:
        raise NotebookError(f"its JSON cannot be read: {error}") from None


def _places(text: str) -> Iterator[SourcePlace]:
    notebook = _members(text, _JsonSpan(_after_blank(text, 0), len(text)))
    if "cells" in notebook:
        sheets = [notebook["cells"]]
    else:
        sheets = [_members(text, sheet)["cells"] for sheet in _items(text, notebook["worksheets"])]
    for sheet in sheets:
        for cell in _items(text, sheet):
            members = _members(text, cell)
            if _decoded(text, members["cell_type"]) != "code":
                continue
            source = next((members[name] for name in _TEXTS if name in members), None)
            if source is None:
                raise ValueError(f"no text in the cell at character {cell.start}")
            is_list = text[source.start] == "["
            yield SourcePlace(source, tuple(_items(text, source)) if is_list else ())


def _decoded_file(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise NotebookError(f"it is not UTF-8 text: {error.reason} at byte {error.start}") from None


def _decoded(text: str, value: _JsonSpan) -> object:
    return _DECODER.raw_decode(text, value.start)[0]


def _after_blank(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match is not None else at


def _members(text: str, value: _JsonSpan) -> dict[str, _JsonSpan]:
    """The members of an object. Of a name that it has twice, the last one counts, as in Python."""
    members: dict[str, _JsonSpan] = {}
    at = _opened(text, value, "{")
    while text[at] != "}":
        name, at = _DECODER.raw_decode(text, at)
        at = _after_blank(text, _after_blank(text, at) + 1)
        end = _DECODER.raw_decode(text, at)[1]
        members[name] = _JsonSpan(at, end)
        at = _next(text, end)
    return members


def _items(text: str, value: _JsonSpan) -> Iterator[_JsonSpan]:
    at = _opened(text, value, "[")
    while text[at] != "]":
        end = _DECODER.raw_decode(text, at)[1]
        yield _JsonSpan(at, end)
        at = _next(text, end)


def _opened(text: str, value: _JsonSpan, bracket: str) -> int:
    if text[value.start] != bracket:
        raise ValueError(f"no `{bracket}` at character {value.start}")
    return _after_blank(text, value.start + 1)


def _next(text: str, end: int) -> int:
    """The next item, or the bracket that closes the list."""
    at = _after_blank(text, end)
    return _after_blank(text, at + 1) if text[at] == "," else at


def edited_file(data: bytes, edits: Sequence[CellEdit]) -> bytes:
    """The file with edits of its cells. Raises NotebookError."""
    mark = b"\xef\xbb\xbf" if data.startswith(b"\xef\xbb\xbf") else b""
    text = _decoded_file(data[len(mark) :])
    places = source_places(text)
    of_cell: dict[int, list[CellEdit]] = {}
    for edit in edits:
        of_cell.setdefault(edit.cell.number - 1, []).append(edit)
    for number in sorted(of_cell, reverse=True):
        if number >= len(places):
            raise NotebookError(f"it has no cell {number + 1} any more")
        place = places[number]
        old = _text_of(text, place)
        new = _in_style(text, place, _edited(old, of_cell[number]))
        text = text[: place.value.start] + new + text[place.value.end :]
    return mark + text.encode("utf-8", "surrogatepass")


def cell_texts(data: bytes) -> tuple[str, ...]:
    """The text of each code cell. Raises NotebookError."""
    text = _decoded_file(data)
    return tuple(_text_of(text, place) for place in source_places(text))


def file_lines(data: bytes) -> tuple[tuple[int, ...], ...]:
    """For each code cell, the 1-based line of the file that has each of its rows. Raises NotebookError."""
    text = _decoded_file(data)
    return tuple(_file_lines(text, place) for place in source_places(text))


def _file_lines(text: str, place: SourcePlace) -> tuple[int, ...]:
    rows: list[int] = []
    for value in place.lines or (place.value,):
        line = text.count("\n", 0, value.start) + 1
        rows += [line] * max(1, len(_LINE.findall(str(_decoded(text, value)))))
    return tuple(rows)


def _text_of(text: str, place: SourcePlace) -> str:
    decoded = _decoded(text, place.value)
    return "".join(decoded) if isinstance(decoded, list) else str(decoded)


def _edited(old: str, edits: Sequence[CellEdit]) -> str:
    """A cell's text after edits of whole rows, from the last edit to the first."""
    lines = _LINE.findall(old)
    rows = [line.rstrip("\r\n") for line in lines]
    ends = [line[len(row) :] for line, row in zip(lines, rows, strict=True)]
    if not lines or ends[-1]:  # the row after the last line end, which is empty
        rows.append("")
        ends.append("")
    line_end = next(filter(None, ends), "\n")
    text = "".join(row + end for row, end in zip(rows, ends, strict=True))
    sizes = (len(row) + len(end) for row, end in zip(rows, ends, strict=True))
    starts = [0, *itertools.accumulate(sizes)]

    def offset(at: tuple[int, int | None]) -> int:
        row, column = at
        # Columns of edits are 0 or the end of a row: the module is compared by lines.
        return starts[row] + (len(rows[row]) if column is None else column)

    for edit in sorted(edits, key=lambda edit: edit.start[0], reverse=True):
        new = edit.text.replace("\n", line_end)
        text = text[: offset(edit.start)] + new + text[offset(edit.end) :]
    return text


def _in_style(text: str, place: SourcePlace, new: str) -> str:
    """A new text as JSON, written as the old one was; a line that stays keeps its escapes."""
    ascii_only = text.isascii() and "\\u" in text
    if text[place.value.start] != "[":
        return _string(new, ascii_only=ascii_only)
    old_values = [str(_decoded(text, value)) for value in place.lines]
    raw = [text[value.start : value.end] for value in place.lines]
    new_values = _LINE.findall(new)
    strings = [_string(line, ascii_only=ascii_only) for line in new_values]
    for block in difflib.SequenceMatcher(None, old_values, new_values, autojunk=False).get_matching_blocks():
        strings[block.b : block.b + block.size] = raw[block.a : block.a + block.size]
    if not strings:
        return "[]"
    opening, between, closing = _separators(text, place)
    return f"[{opening}{between.join(strings)}{closing}]"


def _string(text: str, *, ascii_only: bool) -> str:
    has_halves = any(
        "\ud800" <= character <= "\udfff" for character in text
    )  # of pairs, which UTF-8 cannot write
    return json.dumps(text, ensure_ascii=ascii_only or has_halves)


def _separators(text: str, place: SourcePlace) -> tuple[str, str, str]:
    """What is before the first string of a list, between two, and after the last."""
    if not place.lines:
        return "", ", ", ""
    first, last = place.lines[0], place.lines[-1]
    opening = text[place.value.start + 1 : first.start]
    closing = text[last.end : place.value.end - 1]
    if len(place.lines) > 1:
        return opening, text[first.end : place.lines[1].start], closing
    return opening, f",{opening}" if "\n" in opening else ", ", closing
