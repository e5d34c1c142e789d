"""Text on a terminal: styles, tables, progress, and the characters that the stream can show.

Invariant: no control character of a file name or a source reaches the stream, and without a terminal no style does.
"""

from __future__ import annotations

import contextlib
import enum
import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import TextIO

from fuselight_server.base.formatting import fit_encoding, format_count
from fuselight_server.base.option_names import with_options

Part = str | tuple[str, str]
"""Text, or text and its style: `bold`, `dim`, `bold red`."""

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}

_COMMAND = re.compile(r"^([ \t]*):(?=:)|(#)#(?=\w*\[)", re.MULTILINE)
"""What a service that runs jobs takes for a command where a line of a log begins with it, or has it: `::error::`,
`##[error]`, `##vso[`. `--format github` writes its commands as data."""


class Color(str, enum.Enum):
    """When to color."""

    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class Terminal:
    """A stream that people read."""

    def __init__(self, stream: TextIO, *, color: Color = Color.AUTO, width: int | None = None) -> None:
        self._stream = stream
        self.is_terminal = color is Color.ALWAYS or stream.isatty()
        self.width = width or shutil.get_terminal_size().columns
        self._has_styles = color is Color.ALWAYS or (color is Color.AUTO and _shows_styles(stream))

    def print(self, *parts: Part) -> None:
        """Write one line."""
        self._write(_COMMAND.sub(_inactive_command, "".join(map(self._styled, parts))) + "\n")

    def print_table(
        self, rows: Sequence[Sequence[str]], *, has_header: bool = True, left_columns: int = 1
    ) -> tuple[str, ...]:
        """Write rows in columns; below a header, a column of unknown values is left out.

        The first `left_columns` and the last one are aligned at the left. Returns the first row as it was written.
        """
        columns: Sequence[int] = range(len(rows[0]))
        if has_header:
            columns = [index for index in columns if any(row[index] != "-" for row in rows[1:])]
        cells = [[printable(row[index]) for index in columns] for row in rows]
        widths = [max(map(cell_width, column)) for column in zip(*cells, strict=True)]
        for number, row in enumerate(cells):
            padded = [
                _padded(cell, width, left=index < left_columns or index == columns[-1])
                for index, cell, width in zip(columns, row, widths, strict=True)
            ]
            line = "  ".join(padded).rstrip()
            self.print((line, "bold" if has_header and number == 0 else ""))
        return tuple(cells[0])

    def print_more(self, count: int, noun: str, *, indent: int = 0) -> None:
        """Write how many were left out, if any were."""
        if count > 0:
            self.print(f"{' ' * indent}... and {format_count(count, f'more {noun}')}")

    def write_data(self, text: str) -> None:
        """Write a file's text: UTF-8 in each locale, and without control characters if people see it."""
        if self._stream.isatty():
            self._write(printable(text))
        else:
            self.write_bytes(fit_encoding(text, "utf-8").encode())

    def write_bytes(self, data: bytes) -> None:
        """Write a part of a file."""
        buffer = getattr(self._stream, "buffer", None)
        if buffer is None:  # a stream in memory
            self._write(data.decode(errors="backslashreplace"))
            return
        self._stream.flush()
        buffer.write(data)
        buffer.flush()

    def overwrite(self, text: str) -> None:
        """Show one line in place of the one that was shown like this before."""
        self._write(f"\r\x1b[2K{printable(text).replace(chr(10), ' ')[: self.width - 1]}")
        self._stream.flush()

    def flush(self) -> None:
        """Pass on what was written: a pipe gets it in large parts otherwise."""
        self._stream.flush()

    def _write(self, text: str) -> None:
        self._stream.write(fit_encoding(text, self._stream.encoding or "utf-8"))

    def _styled(self, part: Part) -> str:
        text, style = part if isinstance(part, tuple) else (part, "")
        text = printable(text)
        if not (self._has_styles and style and text):
            return text
        return f"\x1b[{';'.join(_CODES[word] for word in style.split())}m{text}\x1b[0m"


def standard_output(color: Color = Color.AUTO) -> Terminal:
    """Where results go."""
    return Terminal(sys.stdout, color=color)


def standard_error(color: Color = Color.AUTO) -> Terminal:
    """Where errors of the command go, and what it prints next to data on stdout."""
    return Terminal(sys.stderr, color=color)


def print_error(message: str) -> None:
    """Say on stderr what went wrong."""
    standard_error().print(f"fuselight: {message}")


def print_untested(torch: str | None) -> None:
    """Say on stderr that the tests do not run on this torch, if they do not."""
    from fuselight.shared.version import untested_torch  # noqa: PLC0415 - not for --help

    text = untested_torch(torch or "")
    if text is not None:
        print_error(text)


@contextlib.contextmanager
def progress_line(*, is_quiet: bool = False) -> Iterator[Callable[[str], None]]:
    """A function that shows its text on one line of stderr until the next text; does nothing without a terminal."""
    if is_quiet or not sys.stderr.isatty():
        yield lambda _text: None
        return
    terminal = standard_error()
    try:
        yield terminal.overwrite
    finally:
        terminal.overwrite("")


def _inactive_command(match: re.Match[str]) -> str:
    return f"{match[1] or ''}\\x3a" if match[2] is None else "#\\x23"


def printable(text: str) -> str:
    """`text` with options for settings, and an escape for each character that could act on a terminal."""
    text = with_options(text)
    if text.isascii() and text.replace("\n", "").isprintable():
        return text
    from fuselight.shared.report.visible import visible  # noqa: PLC0415 - not for --help: the Report takes longer than all else

    return visible(text)


def cell_width(text: str) -> int:
    """How many columns of a terminal `text` takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(char) else 2 if unicodedata.east_asian_width(char) in "WF" else 1
        for char in text
    )


def _padded(cell: str, width: int, *, left: bool) -> str:
    blanks = " " * (width - cell_width(cell))
    return cell + blanks if left else blanks + cell


def _shows_styles(stream: TextIO) -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"
