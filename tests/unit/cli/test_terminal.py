"""The terminal writer: styles only where they show, no control characters, only characters of the stream's encoding."""

from __future__ import annotations

import io
import sys

import pytest

from fuselight_server.base.terminal import Color, Terminal, cell_width, printable, progress_line


class Screen(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def test_styles_show_on_a_terminal_unless_they_are_not_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")

    def written(stream: io.StringIO, color: Color = Color.AUTO) -> str:
        Terminal(stream, color=color).print(("a", "bold red"), "b")
        return stream.getvalue()

    styled, plain = "\x1b[1;31ma\x1b[0mb\n", "ab\n"
    assert written(Screen()) == styled
    assert written(io.StringIO()) == plain
    assert written(io.StringIO(), Color.ALWAYS) == styled
    assert written(Screen(), Color.NEVER) == plain
    monkeypatch.setenv("NO_COLOR", "1")
    assert written(Screen()) == plain


def test_control_characters_are_replaced() -> None:
    assert printable("a\x1b[2J\x07\r\u202eb\udc80\tc\n") == "a\\x1b[2J\\x07\\r\\u202eb\\udc80\tc\n"
    assert printable("é 深 \U0001f600\u00a0") == "é 深 \U0001f600\u00a0"


def test_data_is_escaped_only_for_a_terminal() -> None:
    file, screen = io.StringIO(), Screen()
    for stream in (file, screen):
        Terminal(stream).write_data("a\x1b,\n")
    assert (file.getvalue(), screen.getvalue()) == ("a\x1b,\n", "a\\x1b,\n")


@pytest.mark.parametrize(("encoding", "shown"), [("utf-8", "38 µs ± 1% 2×\n"), ("ascii", "38 us +- 1% 2x\n")])
def test_a_stream_gets_only_characters_that_it_can_encode(encoding: str, shown: str) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, newline="\n")
    Terminal(stream).print("38 µs ± 1% 2×")
    stream.flush()
    assert raw.getvalue().decode(encoding) == shown


def test_columns_are_aligned_and_unknown_ones_are_omitted() -> None:
    out = io.StringIO()
    rows = [("name", "time", "alone", "what"), ("深", "1 s", "-", "x"), ("bcd", "12 s", "-", "")]
    shown = Terminal(out).print_table(rows)
    assert shown == ("name", "time", "what")
    assert out.getvalue() == "name  time  what\n深     1 s  x\nbcd   12 s\n"
    assert cell_width("深e\u0301") == 3


def test_progress_is_one_line_that_is_gone_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    with progress_line() as show:
        show("1/2 \x1bmodel.py")
    assert screen.getvalue() == "\r\x1b[2K1/2 \\x1bmodel.py\r\x1b[2K"
    quiet = Screen()
    monkeypatch.setattr(sys, "stderr", quiet)
    with progress_line(is_quiet=True) as show:
        show("1/2")
    assert quiet.getvalue() == ""
