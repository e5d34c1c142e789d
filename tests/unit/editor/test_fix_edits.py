"""The edit that turns one text into another: whole lines, in the units of the client's encoding."""

from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st
from lsprotocol import types

from fuselight_server.editor.presenters import convert
from fuselight_server.editor.presenters.text_edits import line_edits

ENDS = st.sampled_from(["\n", "\r\n"])
LINES = st.lists(st.sampled_from(["", "x = 1", "    y = 'caf\xe9'", "\tz", "\U0001f600"]), max_size=8)


@settings(max_examples=60, deadline=None)
@given(
    old=LINES,
    new=LINES,
    end=ENDS,
    encoding=st.sampled_from(["utf-8", "utf-16", "utf-32"]),
    closed=st.booleans(),
)
def test_an_edit_gives_the_new_text_and_its_inverse_the_old_one(
    old: list[str], new: list[str], end: str, encoding: str, *, closed: bool
) -> None:
    before, after = end.join(old), end.join(new) + (end if closed else "")
    view = convert.Client(encoding, lambda _path, _line: None, convert.uri)
    for text, wanted in ((before, after), (after, before)):
        edits = list(line_edits(view, "/m.py", text, wanted))
        assert applied(text, edits, encoding) == wanted


def applied(text: str, edits: list[types.TextEdit], encoding: str) -> str:
    """`text` after edits whose columns count units of `encoding`."""
    size = {"utf-8": 1, "utf-16": 2, "utf-32": 4}[encoding]
    codec = {"utf-8": "utf-8", "utf-16": "utf-16-le", "utf-32": "utf-32-le"}[encoding]
    starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def offset(at: types.Position) -> int:
        return starts[at.line] + len(
            text[starts[at.line] :].encode(codec)[: at.character * size].decode(codec)
        )

    for edit in reversed(edits):
        text = text[: offset(edit.range.start)] + edit.new_text + text[offset(edit.range.end) :]
    return text
