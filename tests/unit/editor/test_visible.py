"""Text of the user's in an editor and a terminal: characters that act stand as escapes."""

from __future__ import annotations

import io
import json
import re
import sys
import unicodedata
from typing import TYPE_CHECKING

import pytest

from fuselight.shared.report.failure import LONGEST, first_line, safe_text, traceback_text
from fuselight.shared.report.visible import one_line, visible, visible_json
from fuselight_server.base.markdown import code_block, code_span, plain
from fuselight_server.base.terminal import Terminal
from fuselight_server.editor.handlers import graphs
from fuselight_server.editor.handlers.protocol import without_links, written
from fuselight_server.editor.messages.params import GraphsParams
from fuselight_server.explain.pages.document import standalone_page
from fuselight_server.sweep.page import as_page
from fuselight_server.sweep.rows import RowStatus, SweepAbout, SweepJob, SweepRow
from tests.support.built_pages import PAGES, use_built_pages

if TYPE_CHECKING:
    from pathlib import Path

ACTS = "\x1b[31m\x07\x9b\u202e\u2066\u200b\ufeff\x7f"
SHOWN = r"\x1b[31m\x07\x9b\u202e\u2066\u200b\ufeff\x7f"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("", ""),
        ("x = 1\n\ty", "x = 1\n\ty"),
        ("a\r\nb\rc", "a\nb\\rc"),
        ("é 深 \U0001f600", "é 深 \U0001f600"),
        ("\\x1b", "\\x1b"),
        ("\udc80", "\\udc80"),
        (ACTS, SHOWN),
    ],
)
def test_what_acts_is_shown_by_its_escape(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert visible(shown) == shown


def test_every_way_to_the_editor_shows_escapes() -> None:
    plain_text = plain(ACTS).replace("\\\\", "\\").replace("\\[", "[")
    assert plain_text == SHOWN
    assert code_span(ACTS) == f"`{SHOWN}`"
    assert code_block(ACTS, "python") == f"```python\n{SHOWN}\n```"
    assert without_links(ACTS) == SHOWN
    value = {"a": [ACTS, {"b": {"c": [[ACTS, "\\u202e", "é\n\U0001f600"]]}}]}
    kept = {"a": [SHOWN, {"b": {"c": [[SHOWN, "\\u202e", "é\n\U0001f600"]]}}]}
    assert json.loads(written(value)) == kept
    assert json.loads(written(value, 0)) == kept


def test_every_page_shows_escapes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_built_pages(monkeypatch, tmp_path / "extension")
    for script in PAGES:
        page = standalone_page({"title": ACTS, "lines": [[[[{"text": f"<{ACTS}\n"}]]]]}, ACTS, script)
        (data,) = re.findall(r'id="page">(.*?)</script>', page)
        assert json.loads(data) == {"title": SHOWN, "lines": [[[[{"text": f"<{SHOWN}\n"}]]]]}
        assert f"<title>{SHOWN}</title>" in page
    row = SweepRow("id", "key", ACTS, SweepJob.CHECK, RowStatus.FAILED, notes=(ACTS, "\udc80"))
    sweep = as_page([row], SweepAbout(suite=ACTS, command=ACTS))
    assert sweep.count(SHOWN) >= 5
    assert not set(ACTS) & {text for text in sweep if not text.isprintable()}
    assert sweep.encode()
    monkeypatch.setattr(graphs, "graphs", lambda _server, _params: {"boxes": [{"title": ACTS}]})
    params = GraphsParams("file:///m.py", None)
    assert json.loads(graphs.answer(None, params).text) == {"boxes": [{"title": SHOWN}]}  # type: ignore[arg-type]


def test_the_text_of_an_exception_is_bounded_and_shown() -> None:
    huge = ValueError(f"{ACTS}\n" * 1_000_000)
    assert first_line(huge) == SHOWN
    assert len(safe_text(huge)) == LONGEST
    assert "\x1b" not in safe_text(huge)
    error = RuntimeError("outer")
    error.__notes__ = ["note\n" * 1_000_000] * 1000  # type: ignore[attr-defined]  # as add_note of Python 3.11
    error.__cause__ = huge
    text = traceback_text(error)
    assert len(text) <= LONGEST
    assert "RuntimeError: outer" in text
    assert "\x1b" not in text


KINDS = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}


@pytest.mark.slow
def test_no_character_of_a_kind_that_acts_is_shown_as_it_is() -> None:
    every = [chr(code) for code in range(sys.maxunicode + 1)]
    acting = [char for char in every if unicodedata.category(char) in KINDS and char not in "\n\t"]
    assert len(acting) > 130_000
    assert visible("".join(acting)).isprintable()
    letters = "".join(
        char for char in every if unicodedata.category(char)[0] in "LNPS" and not _FILLER.match(char)
    )
    assert visible(letters) == letters
    for start, end in (
        (0xE0000, 0xE0FFF),
        (0xFFF0, 0xFFFB),
        (0xFE00, 0xFE0D),
        (0x180B, 0x180F),
        (0x2060, 0x206F),
    ):
        text = "".join(map(chr, range(start, end + 1)))
        assert visible(text).isascii(), hex(start)


_FILLER = re.compile("[\u115f\u1160\u2800\u3164\uffa0]")
LANGUAGES = (
    *("caf\u00e9 \u2764\ufe0f", "\u6df1\u5ea6", "e\u0301", "\u2190 \u00b5s", "\u05e9\u05dc", "a\u3000b"),
    *("\u0939\u093f", "\u0645\u0631", "\U0001f600"),
)


@pytest.mark.parametrize("text", LANGUAGES)
def test_text_of_any_language_is_shown_as_it_is(text: str) -> None:
    assert visible(text) == text
    assert visible_json(json.dumps(text)) == json.dumps(text)


def test_data_in_a_row_of_selectors_is_shown() -> None:
    assert visible("\u2764\ufe0f\ufe0e\ufe0f") == "\u2764\ufe0f\\ufe0e\\ufe0f"


OTHERS = "\x7f\xad\u180e\ufff9\U000e0041\ue000\U0010fffd\udc80"


@pytest.mark.parametrize("char", [*map(chr, range(32)), *OTHERS])
def test_json_shows_what_the_text_shows(char: str) -> None:
    text = f"a{char}b\\u00ad"
    assert json.loads(visible_json(json.dumps([text]))) == [visible(text)]


def test_a_name_begins_no_line_of_its_own() -> None:
    assert one_line("a\n::error::b\r\nc\td\u2028e") == r"a\n::error::b\nc\td\u2028e"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("::error::x", r"\x3a:error::x"),
        ("a\n  ::set-output name=a::b", "a\n  \\x3a:set-output name=a::b"),
        ("a ##[error]x", "a #\\x23[error]x"),
        ("##vso[task.setvariable]x", r"#\x23vso[task.setvariable]x"),
        ("a::b, ## heading, x[::2]", "a::b, ## heading, x[::2]"),
    ],
)
def test_a_line_of_text_is_no_command_of_a_service(text: str, shown: str) -> None:
    stream = io.StringIO()
    Terminal(stream).print(text)
    Terminal(stream).print("", text)
    assert stream.getvalue() == f"{shown}\n" * 2
