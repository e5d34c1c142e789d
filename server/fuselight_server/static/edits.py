"""Edits of the user's source: an inputs stub, `mark_dynamic`, ignore comments, moved directives.

Invariant: an edit adds or removes one thing and leaves every other character as it is. When the right place cannot be
told for certain there is no edit. LibCST reads the one top-level chunk that matters, so that the rest of the file may
be half-typed. Slow (tens of milliseconds): for code actions, never for a keystroke.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuselight_server.finding import Span
from fuselight_server.static.call_sites import call_site
from fuselight_server.static.document import read_source, split_lines
from fuselight_server.static.file_reader import chunks_of
from fuselight_server.static.names import collect
from fuselight_server.static.stubs import directive_for
from fuselight_server.static.syntax import inside_string, read_chunk

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuselight_server.static.reading import Ignore, StaticTarget

_BOM = b"\xef\xbb\xbf"
_FUTURE = re.compile(rb"from\s+__future__\b")
_DIRECTIVE = re.compile(rb"#[ \t]*fuselight:(?!.*#[ \t]*fuselight:).*$")
_IMPORT = re.compile(rb"(?:import|from)\s")


@dataclass(frozen=True)
class TextEdit:
    """Put `new_text` in the place of `span`, which has all its columns; an empty span inserts."""

    span: Span
    new_text: str


def insert_inputs_stub(text: str, target: StaticTarget) -> list[TextEdit]:
    """A directive above `target`, its arguments made from the signature and its annotations."""
    lines = _lines(text)
    chunks = [data.decode("utf-8", "replace") for _, data in chunks_of(b"".join(lines))]
    line = target.span.line
    if not 1 <= line <= len(lines):
        return []
    return [_insert_line(target.span.path, lines, line, f"# fuselight: {directive_for(target, chunks)}")]


def insert_directives(text: str, target: StaticTarget, calls: Sequence[str]) -> list[TextEdit]:
    """Directives with these calls above `target`, in their order."""
    lines = _lines(text)
    line = target.span.line
    if not 1 <= line <= len(lines):
        return []
    made = [_insert_line(target.span.path, lines, line, f"# fuselight: {call}") for call in calls]
    return [TextEdit(made[0].span, "".join(one.new_text for one in made))] if made else []


def insert_mark_dynamic(
    path: str,
    text: str,
    line: int,
    *,
    parameter: str,
    dimension: int,
    parameters: tuple[str, ...],
    callee: str | None = None,
    column: int | None = None,
    end_column: int | None = None,
) -> list[TextEdit]:
    """`torch._dynamo.mark_dynamic(argument, dimension)` above the statement on `line` that passes `parameter`.

    `parameters` are those of what is called, `self` excluded; the columns, in bytes, are those of the call. Empty when
    the argument there is not a plain name, when several calls fit, or when the statement is in a place before which
    nothing can be put (a loop's condition, a comprehension).
    """
    lines = _lines(text)
    chunks = chunks_of(b"".join(lines))
    first, chunk = next(((at, data) for at, data in reversed(chunks) if at <= line), (1, b""))
    site = call_site(
        chunk.decode("utf-8", "replace"),
        line - first + 1,
        parameter=parameter,
        parameters=parameters,
        callee=callee,
        column=column,
        end_column=end_column,
    )
    if site is None:
        return []
    torch = next((name for name, full in _module_names(chunks).items() if full == "torch"), None)
    importing = [] if torch else _insert_import(path, lines, chunks)
    if torch is None and not importing:
        return []
    at = first + site.line - 1
    statement = f"{torch or 'torch'}._dynamo.mark_dynamic({site.argument}, {dimension})"
    if at > 1 and lines[at - 2].strip().decode("utf-8", "replace") == statement:
        return []
    return [*importing, _insert_line(path, lines, at, statement)]


def insert_ignore(path: str, text: str, line: int, code: str) -> list[TextEdit]:
    """Return the edit that adds `# fuselight: ignore[code]` to `line`, or `code` to the line's existing ignore.

    Empty if the line already ignores the code, or cannot end in a comment: inside a string, or after a backslash.
    """
    lines = _lines(text)
    if not 1 <= line <= len(lines):
        return []
    data = lines[line - 1].rstrip(b"\r\n")
    present = _ignore_at(path, text, line)
    if present is not None:
        return (
            [] if not present.codes or code in present.codes else [_add_code(path, line, data, present, code)]
        )
    if data.endswith(b"\\") or _ends_in_string(lines, line):
        return []
    kept = data.rstrip()
    gap = "  " if kept and not kept.isspace() else ""
    span = Span(path, line, len(kept), line, len(data))
    return [TextEdit(span, f"{gap}# fuselight: ignore[{code}]")]


def move_directive(path: str, text: str, line: int, above: int) -> list[TextEdit]:
    """The directive on `line` to a line of its own above the line `above`."""
    lines = _lines(text)
    if not (1 <= line <= len(lines) and 1 <= above <= len(lines)):
        return []
    data = lines[line - 1].rstrip(b"\r\n")
    found = _DIRECTIVE.search(data)
    if found is None:
        return []
    code = data[: found.start()].rstrip()
    if code or line == len(lines):
        removed = TextEdit(Span(path, line, len(code), line, len(data)), "")
    else:
        removed = TextEdit(Span(path, line, 0, line + 1, 0), "")
    return [_insert_line(path, lines, above, found[0].decode("utf-8", "replace").rstrip()), removed]


def remove_ignore(path: str, text: str, line: int, code: str | None = None) -> list[TextEdit]:
    """`code` out of the ignore on `line`; the whole comment when nothing else is in it, or when `code` is None."""
    present = _ignore_at(path, text, line)
    if present is None or (code is not None and code not in present.codes):
        return []
    lines = _lines(text)
    data = lines[line - 1].rstrip(b"\r\n")
    start = present.span.column or 0
    left = tuple(item for item in present.codes if item != code)
    if code is not None and left:
        opens, closes = data.index(b"[", start) + 1, data.index(b"]", start)
        return [TextEdit(Span(path, line, opens, line, closes), ", ".join(left))]
    if not data[:start].strip() and line < len(lines):
        return [TextEdit(Span(path, line, 0, line + 1, 0), "")]
    return [TextEdit(Span(path, line, len(data[:start].rstrip()), line, len(data)), "")]


def _add_code(path: str, line: int, data: bytes, present: Ignore, code: str) -> TextEdit:
    closes = data.index(b"]", present.span.column or 0)
    return TextEdit(Span(path, line, closes, line, closes), f", {code}")


def _ignore_at(path: str, text: str, line: int) -> Ignore | None:
    return next((ignore for ignore in read_source(path, text).ignores if ignore.span.line == line), None)


def _ends_in_string(lines: list[bytes], line: int) -> bool:
    chunks = chunks_of(b"".join(lines))
    first, chunk = next(((at, data) for at, data in reversed(chunks) if at <= line), (1, b""))
    rows = chunk.splitlines(keepends=True)
    end = sum(map(len, rows[: line - first + 1]))
    return end > 0 and rows[line - first].endswith(b"\n") and inside_string(chunk, end - 1)


def _module_names(chunks: list[tuple[int, bytes]]) -> dict[str, str]:
    names = collect(read_chunk(data) for _, data in chunks if b"import" in data)
    return {name: full for (scope, name), full in names.imported.items() if not scope}


def _insert_import(path: str, lines: list[bytes], chunks: list[tuple[int, bytes]]) -> list[TextEdit]:
    at = next((line for line, data in chunks if _IMPORT.match(data) and not _FUTURE.match(data)), None)
    return [] if at is None else [_insert_line(path, lines, at, "import torch")]


def _insert_line(path: str, lines: list[bytes], line: int, new: str) -> TextEdit:
    """`new` on a line of its own above `line`, indented and ended as that line is."""
    there = lines[line - 1]
    start = len(_BOM) if line == 1 and there.startswith(_BOM) else 0
    body = there[start:].rstrip(b"\r\n")
    indent = body[: len(body) - len(body.lstrip())].decode()
    ended = next((end for end in (_line_end(there), _line_end(lines[0])) if end), "\n")
    return TextEdit(Span(path, line, start, line, start), f"{indent}{new}{ended}")


def _line_end(line: bytes) -> str:
    return line[len(line.rstrip(b"\r\n")) :].decode()


def _lines(text: str) -> list[bytes]:
    return split_lines(text.encode("utf-8", "surrogatepass"))
