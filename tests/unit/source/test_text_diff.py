"""A text that replaces another one leaves every line where it is that is in both."""

from __future__ import annotations

import textwrap

import pytest

from fuselight_server.base.finding import Span
from fuselight_server.source.document import SourceDocument
from fuselight_server.source.text_changes import Change, moved

TEXT = textwrap.dedent(
    """\
    import torch
    import os


    def scale( x ):
        return x*2.0

    class Mixer(torch.nn.Module):
        def forward(self, left, right):
            total = left + right
            print('total', total, left.shape, right.shape)
            for row in total:
                row.add_(1)
            os.getpid()
            return scale(total)


    mixer = torch.compile(Mixer())
    """
)


def span_of(text: str, part: str) -> Span:
    """The span of the only `part` of a text."""
    assert text.count(part) == 1, part
    start = text.index(part)
    head, end = text[:start], text[: start + len(part)]
    first, last = head.count("\n") + 1, end.count("\n") + 1
    columns = [len(name.rpartition("\n")[2].encode()) for name in (head, end)]
    return Span("m.py", first, columns[0], last, columns[1])


def follow(changes: list[Change], span: Span) -> tuple[Span | None, bool]:
    """Where a span is after changes, and whether its line was touched."""
    edited = False
    for change in changes:
        there = moved(span, change)
        if there is None:
            return None, True
        span, edited = there.span, edited or there.edited
    return span, edited


ALL = ((1, 0), (19, 0))
CALL = "print('total', total, left.shape, right.shape)"
WRAPPED = """print(
            "total",
            total,
            left.shape,
            right.shape,
        )"""
PIECES = ("x*2.0", CALL, "row.add_(1)", "os.getpid()", "torch.compile(Mixer())")


@pytest.mark.parametrize(
    ("new", "kept", "touched"),
    [
        pytest.param(
            TEXT.replace("import os\n", "import os\nimport sys\n").replace(
                "    os.getpid", "    # note\n        os.getpid"
            ),
            PIECES,
            (),
            id="lines-added-in-two-places",
        ),
        pytest.param(
            TEXT.replace("total = left + right\n", "total = left - right\n"),
            PIECES,
            (),
            id="another-line-edited",
        ),
        pytest.param(TEXT.replace("\n", "\r\n"), PIECES, (), id="other-line-ends"),
        pytest.param(
            TEXT.replace("scale( x )", "scale(x)")
            .replace("x*2.0", "x * 2.0")
            .replace("2.0\n\n", "2.0\n\n\n"),
            PIECES[1:],
            (("x*2.0", "x * 2.0"),),
            id="formatted",
        ),
        pytest.param(
            TEXT.replace("    ", "  "),
            (),
            tuple((piece, piece) for piece in PIECES[:4]),
            id="another-indentation",
        ),
        pytest.param(
            TEXT.replace(CALL, WRAPPED),
            PIECES[2:],
            ((CALL, WRAPPED),),
            id="a-call-wrapped",
        ),
        pytest.param(
            TEXT.replace("        for row in total:\n            row.add_(1)\n", ""),
            (PIECES[0], PIECES[1], PIECES[3], PIECES[4]),
            (("row.add_(1)", ""),),
            id="lines-deleted",
        ),
        pytest.param(
            "# a program of its own\nN = 3\n",
            (),
            tuple((piece, "") for piece in PIECES),
            id="another-program",
        ),
    ],
)
def test_lines_that_stay_are_untouched_and_found_where_they_are(
    new: str, kept: tuple[str, ...], touched: tuple[tuple[str, str], ...]
) -> None:
    """`touched`: parts of edited lines, each with its text afterwards; an empty one is gone."""
    for is_whole in (True, False):
        document = SourceDocument("m.py", TEXT)
        changes = document.become(new) if is_whole else document.replace(*ALL, new)
        assert document.text == new
        for part in kept:
            assert follow(changes, span_of(TEXT, part)) == (
                span_of(new.replace("\r\n", "\n"), part),
                False,
            ), part
        for part, after in touched:
            place = span_of(new, after) if after else None
            assert follow(changes, span_of(TEXT, part)) == (place, True), part


def test_the_same_text_in_the_place_of_a_part_changes_nothing() -> None:
    document = SourceDocument("m.py", TEXT)
    assert document.replace((4, 0), (9, 0), "".join(TEXT.splitlines(keepends=True)[3:8])) == []
    assert document.version == 0


def test_a_column_after_characters_of_several_bytes_is_right() -> None:
    old, new = "é = f(x)  # ü\nü, y = g(é)\n", "é = f( x )  # ü\n\nü, y = g(é)\n"
    document = SourceDocument("m.py", old)
    changes = document.become(new)
    assert follow(changes, span_of(old, "g(é)")) == (span_of(new, "g(é)"), False)
    assert follow(changes, span_of(old, "# ü")) == (span_of(new, "# ü"), True)


def test_lines_of_thousands_of_tokens_are_replaced_at_once() -> None:
    old, new = (f"{PIECES[0]}\nROWS = [{', '.join(str(i * by % 7) for i in range(4000))}]\n" for by in (3, 5))
    document = SourceDocument("m.py", old)
    changes = document.become(new)
    assert len(changes) == 1, "thousands, token by token"
    assert follow(changes, span_of(old, PIECES[0])) == (span_of(old, PIECES[0]), False)


@pytest.mark.parametrize("after", ["\n", "\nmore\n"])
@pytest.mark.parametrize("old", ["", "x = 1", "x = 1\ny = 2\n", "a\n\n", "é = '''\n'''"])
@pytest.mark.parametrize("new", ["", "x = 1", "x = 1\ny = 2\n", "x  =  1\n\n\n", "é = '''\n'''\n"])
def test_a_part_of_whole_lines_becomes_another_text_before_what_follows_it(
    old: str, new: str, after: str
) -> None:
    document = SourceDocument("m.py", f"first\n{old}{after}")
    last = 2 + old.count("\n")
    document.replace((2, 0), (last, len(document.line_bytes(last))), new)
    assert document.text == f"first\n{new}{after}"
