"""Spans move with the text that they point at."""

from __future__ import annotations

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from fuselight_server.base.finding import Span
from fuselight_server.source.document import SourceDocument
from fuselight_server.source.text_changes import Change, Moved, moved

TEXT = "first = 1\nsecond = call(x)\n    third\nfourth\n"


@pytest.mark.parametrize(
    ("start", "end", "new", "line", "edited"),
    [
        ((1, 0), (1, 0), "new\n", 3, False),  # a line above
        ((1, 9), (1, 9), "\nnew", 3, False),  # Return at the end of the line above
        ((2, 0), (2, 0), "new\n", 3, False),  # at its very start
        ((2, 16), (2, 16), "\n    ", 2, False),  # Return at its end
        ((3, 0), (4, 0), "", 2, False),  # the line below is deleted
        ((1, 0), (2, 0), "", 1, False),  # the line above is deleted
        ((1, 0), (2, 0), "a\nb\nc\n", 4, False),  # and replaced
        ((2, 16), (2, 16), "  # note", 2, True),
        ((2, 9), (2, 13), "other", 2, True),
        ((1, 9), (2, 0), " ", 1, True),  # joined with the line above
        ((2, 16), (3, 4), " ", 2, True),  # with the line below
        ((2, 4), (2, 4), "\n", 3, True),  # split
        ((2, 0), (3, 0), "second = other(x)\n", 2, True),  # rewritten
        ((2, 0), (3, 0), "", None, True),  # deleted
        ((1, 3), (4, 2), "", None, True),
    ],
)
def test_a_span_moves_with_edits(
    start: tuple[int, int], end: tuple[int, int], new: str, line: int | None, *, edited: bool
) -> None:
    document = SourceDocument("m.py", TEXT)
    result = moved(Span("m.py", 2, 9, 2, 16), document.edit(start, end, new))
    if line is None:
        assert result is None
    else:
        assert result is not None
        assert (result.span.line, result.edited) == (line, edited)


def test_a_span_of_an_entire_line_keeps_no_columns() -> None:
    document = SourceDocument("m.py", TEXT)
    assert moved(Span("m.py", 2), document.edit((1, 0), (1, 0), "\n")) == Moved(Span("m.py", 3), edited=False)
    assert moved(Span("m.py", 3), document.edit((3, 2), (3, 2), "x")) == Moved(Span("m.py", 3), edited=True)


AT = st.tuples(st.integers(1, 9), st.integers(0, 12))
BODY = st.text(alphabet="ab é😀\n\r", max_size=30)
FULL = BODY.map(lambda text: f"a{text}")


def text_at(document: SourceDocument, span: Span) -> list[bytes]:
    assert span.end_line is not None
    assert span.column is not None
    lines = [document.line_bytes(n) for n in range(span.line, span.end_line + 1)]
    lines[-1] = lines[-1][: span.end_column]
    lines[0] = lines[0][span.column :]
    return lines


def whole_lines(document: SourceDocument, span: Span) -> list[bytes]:
    return [document.line_bytes(n) for n in range(span.line, (span.end_line or span.line) + 1)]


@given(FULL, AT, AT, st.lists(st.tuples(AT, AT, BODY), min_size=1, max_size=4))
# Two line ends become one.
@pytest.mark.slow
@example("a\r\ra", (1, 0), (1, 0), [((3, 0), (1, 0), "\ra\n"), ((2, 0), (4, 1), "")])
@settings(max_examples=150, deadline=None)
def test_untouched_text_is_still_pointed_at(
    text: str,
    start: tuple[int, int],
    end: tuple[int, int],
    edits: list[tuple[tuple[int, int], tuple[int, int], str]],
) -> None:
    document = SourceDocument("m.py", text)
    start, end = sorted((document.clamp(start), document.clamp(end)))
    if start == end:
        start, end = (1, 0), document.clamp((99, 99))
    assume(start < end)
    span = Span("m.py", start[0], start[1], end[0], end[1])
    lines, pointed = whole_lines(document, span), text_at(document, span)
    changes = []
    touched = False
    for change_start, change_end, new in edits:
        change = document.edit(change_start, change_end, new)
        changes.append(change)
        result = _moved_through(span, changes)
        if result is None:
            return
        before = _moved_through(span, changes[:-1])
        assert before is not None
        now = (
            (before.span.line, before.span.column or 0),
            (before.span.end_line or 0, before.span.end_column or 0),
        )
        touched = touched or not (change.end <= now[0] or change.start >= now[1])
        assert 1 <= result.span.line <= (result.span.end_line or 0) <= document.line_count
        if not result.edited:
            assert whole_lines(document, result.span) == lines
        if not touched:
            assert text_at(document, result.span) == pointed


def _moved_through(span: Span, changes: list[Change]) -> Moved | None:
    edited = False
    for change in changes:
        result = moved(span, change)
        if result is None:
            return None
        span, edited = result.span, edited or result.edited
    return Moved(span, edited)
