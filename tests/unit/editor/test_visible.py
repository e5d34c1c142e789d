"""Text of the user's in an editor and a terminal: characters that act stand as escapes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from fuselight.shared.report.failure import LONGEST, first_line, safe_text, traceback_text
from fuselight.shared.report.visible import visible
from fuselight_server.editor.handlers import graphs
from fuselight_server.editor.handlers.protocol import without_links, written
from fuselight_server.editor.messages.params import GraphsParams
from fuselight_server.editor.presenters.markdown import code_block, code_span, plain
from fuselight_server.explain.benchmarks.exports import standalone_page
from fuselight_server.sweep.page import as_page
from fuselight_server.sweep.rows import RowStatus, SweepAbout, SweepJob, SweepRow

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
    (tmp_path / "dist").mkdir()
    (tmp_path / "media").mkdir()
    for name in ("dist/bench.js", "dist/tune.js", "media/bench.css"):
        (tmp_path / name).touch()
    for script in ("bench", "tune"):
        page = standalone_page(
            {"title": ACTS, "lines": [[[[{"text": f"<{ACTS}\n"}]]]]}, ACTS, script, tmp_path
        )
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
