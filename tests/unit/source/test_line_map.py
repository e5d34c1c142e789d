"""The line map: whatever is edited, a line that has a line of the run has its text."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuselight_server.source.document import SourceDocument
from fuselight_server.source.line_map import LineMap

TEXT = "one\ntwo\nthree\nfour\nfive\n"


def mapped(lines: LineMap, count: int) -> list[int]:
    return [lines.then(line) for line in range(1, count + 1)]


@pytest.mark.parametrize(
    ("start", "end", "new", "expected"),
    [
        ((2, 0), (2, 0), "new\n", [1, 0, 2, 3, 4, 5]),  # a line above
        ((1, 3), (1, 3), "\nnew", [1, 0, 2, 3, 4, 5]),  # Return at a line's end
        ((2, 1), (2, 1), "x", [1, 0, 3, 4, 5]),
        ((2, 1), (2, 1), "\n", [1, 0, 0, 3, 4, 5]),  # split
        ((2, 3), (3, 0), " ", [1, 0, 4, 5]),  # joined
        ((2, 0), (4, 0), "", [1, 4, 5]),  # deleted
        ((2, 0), (3, 0), "a\nb\n", [1, 0, 0, 3, 4, 5]),  # replaced
        ((2, 0), (2, 0), "", [1, 2, 3, 4, 5]),  # nothing
        ((1, 0), (6, 0), "", []),
    ],
)
def test_an_edit_touches_its_own_lines_only(
    start: tuple[int, int], end: tuple[int, int], new: str, expected: list[int]
) -> None:
    lines = LineMap(5)
    lines.apply_edit(SourceDocument("m.py", TEXT).edit(start, end, new))
    assert mapped(lines, len(expected)) == expected
    assert list(lines.lines()) == [(now, then) for now, then in enumerate(expected, 1) if then]


AT = st.tuples(st.integers(1, 9), st.integers(0, 12))
BODY = st.text(alphabet="ab é😀\n\r", max_size=30)


@pytest.mark.slow
@given(BODY, st.lists(st.tuples(AT, AT, BODY), max_size=5))
@settings(max_examples=150, deadline=None)
def test_a_line_of_the_run_has_the_text_of_the_run(
    text: str, edits: list[tuple[tuple[int, int], tuple[int, int], str]]
) -> None:
    document = SourceDocument("m.py", text)
    ran = [document.line_bytes(line) for line in range(1, document.line_count + 1)]
    lines = LineMap(len(ran))
    for start, end, new in edits:
        lines.apply_edit(document.edit(start, end, new))
    for line, then in lines.lines():
        assert document.line_bytes(line) == ran[then - 1]


@given(st.lists(st.text(alphabet="xy", min_size=1, max_size=3), min_size=3, max_size=12), st.data())
@settings(max_examples=80, deadline=None)
def test_lines_that_no_edit_touched_keep_their_line(rows: list[str], data: st.DataObject) -> None:
    """Insertions and deletions of entire lines edit nothing else."""
    document = SourceDocument("m.py", "\n".join(rows) + "\n")
    lines, expected = LineMap(len(rows)), list(range(1, len(rows) + 1))
    for _ in range(data.draw(st.integers(1, 4))):
        first = data.draw(st.integers(1, len(expected) + 1))
        last = data.draw(st.integers(first, len(expected) + 1))
        new = data.draw(st.integers(0, 3))
        lines.apply_edit(document.edit((first, 0), (last, 0), "new\n" * new))
        expected[first - 1 : last - 1] = [0] * new
    assert mapped(lines, len(expected)) == expected


def test_a_span_of_several_lines_holds_only_as_a_whole() -> None:
    lines, document = LineMap(5), SourceDocument("m.py", TEXT)
    lines.apply_edit(document.edit((1, 0), (1, 0), "new\n"))
    assert [lines.now(line, 2, 4) for line in (3, 4, 5)] == [3, 3, 3]
    lines.apply_edit(document.edit((4, 0), (4, 0), "new\n"))
    assert lines.now(3, 2, 4) is None
    assert lines.now(3, 2, 2) == 3
    lines.reset()
    assert lines.now(3, 2, 4) == 2


def test_lines_of_a_large_file_move() -> None:
    count = 50_000
    document = SourceDocument("m.py", "x\n" * count)
    change = document.edit((count // 2, 0), (count // 2, 0), "new\n")
    lines = LineMap(count)
    lines.apply_edit(change)
    assert lines.then(count // 2) == 0
    assert lines.then(count + 1) == count


def test_the_map_between_two_texts_finds_lines_that_moved_and_those_in_place_of_a_line() -> None:
    lines = LineMap.between("a\nb\nc\nd\ne", "import\na\nx\ny\nc\ne")
    assert mapped(lines, 6) == [0, 1, 0, 0, 3, 5]
    assert [lines.places(line) for line in (1, 3, 5)] == [range(2, 3), range(5, 6), range(6, 7)]
    assert lines.places(2) == range(3, 5), "replaced by two lines"
    assert lines.places(4) == range(6, 7), "deleted: the line after it"
