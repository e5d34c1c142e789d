"""Files as the command line meets them: found in folders, decoded by their own cookie, spans in characters.

Invariant: a file that cannot be read is a `Problem`, never a crash; positions that leave here are 1-based characters.
"""

from __future__ import annotations

import io
import os
import tokenize
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fuselight.shared.notebooks.cells import NotebookError
from fuselight.shared.report import Problem
from fuselight_server.base.files import leaves, read_python, split_text, walk_sources
from fuselight_server.base.finding import Span


def python_files(paths: Iterable[Path]) -> Iterator[Path]:
    """The files named, and every .py file in the folders named, in a stable order, each once."""
    seen: set[Path] = set()
    for path in paths:
        for file in _walk(path) if path.is_dir() else (path,):
            absolute = Path(os.path.abspath(file))  # noqa: PTH100 - resolve() would rename what the user named
            if absolute not in seen:
                seen.add(absolute)
                yield absolute


def _walk(folder: Path) -> Iterator[Path]:
    for parent, names in walk_sources(folder):
        files = (parent / name for name in names if name.endswith(".py"))
        yield from (file for file in files if not leaves(file, folder))


def shown_path(path: str) -> str:
    """The path as a terminal's user would type it: relative where it lies under the working folder."""
    try:
        relative = os.path.relpath(path)
    except ValueError:  # another drive
        return path
    return path if relative.startswith("..") else Path(relative).as_posix()


def read_text(path: Path) -> str | Problem:
    """The file's text, decoded as Python would (PEP 263), line ends kept."""
    try:
        data = read_python(str(path))
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding)
    except FileNotFoundError:
        return Problem(stage="source", what=shown_path(str(path)), why="there is no such file")
    except NotebookError as error:
        return Problem(stage="source", what=shown_path(str(path)), why=str(error))
    except OSError as error:
        return Problem(stage="source", what=shown_path(str(path)), why=error.strerror or str(error))
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        return Problem(stage="source", what=shown_path(str(path)), why=f"{type(error).__name__}: {error}")


def file_encoding(path: str) -> str:
    """The encoding of a file as Python reads it; UTF-8 where it cannot be read."""
    try:
        return tokenize.detect_encoding(io.BytesIO(read_python(path)).readline)[0]
    except (OSError, SyntaxError, ValueError):
        return "utf-8"


@dataclass(frozen=True)
class CharacterSpan:
    """A span in characters: all four 1-based, the end column exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass
class SourceFiles:
    """The lines of the files that findings are in, each file read once."""

    texts: dict[str, list[str] | None] = field(default_factory=dict)
    given: Mapping[str, str] = field(default_factory=dict)
    """Texts by absolute path that stand for those on disk."""

    def text(self, path: str) -> str | Problem:
        """The text of a file."""
        return self.given[path] if path in self.given else read_text(Path(path))

    def text_or_none(self, path: str) -> str | None:
        """The text of a file; None where it cannot be read."""
        text = self.text(path)
        return text if isinstance(text, str) else None

    def line(self, path: str, number: int) -> str | None:
        """Line `number` (1-based) of `path` without its end; None where it cannot be read."""
        if path not in self.texts:
            text = self.text(path)
            self.texts[path] = split_text(text) if isinstance(text, str) else None
        lines = self.texts[path]
        return lines[number - 1] if lines is not None and 0 < number <= len(lines) else None

    def character_span(self, span: Span) -> CharacterSpan:
        """The span in characters; without columns it is the line from its first non-blank to its end."""
        first = self.line(span.path, span.line)
        end_line = span.last_line
        if first is None:
            return CharacterSpan(
                span.line, (span.column or 0) + 1, end_line, (span.end_column or span.column or 0) + 1
            )
        if span.column is None:
            blank = len(first) - len(first.lstrip())
            return CharacterSpan(span.line, blank + 1, span.line, len(first.rstrip()) + 1)
        start = _characters(first, span.column)
        last = self.line(span.path, end_line)
        if span.end_column is None or last is None:
            return CharacterSpan(span.line, start + 1, span.line, len(first.rstrip()) + 1)
        return CharacterSpan(span.line, start + 1, end_line, _characters(last, span.end_column) + 1)


def _characters(text: str, byte: int) -> int:
    """How many characters the first `byte` bytes of the UTF-8 form of `text` hold."""
    return len(text.encode("utf-8", "surrogatepass")[:byte].decode("utf-8", "ignore"))
