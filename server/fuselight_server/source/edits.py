"""Edits of the user's source: an inputs stub, `mark_dynamic`, ignore comments, moved directives.

Invariant: an edit adds or removes one thing and leaves every other character as it is. When the right place cannot be
told for certain there is no edit. LibCST reads the one top-level chunk that matters, so that the rest of the file may
be half-typed. Slow (tens of milliseconds): for code
actions, never for a keystroke.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from fuselight_server.base.finding import Span
from fuselight_server.source.document import lines_of, read_source
from fuselight_server.source.example_calls import call_for
from fuselight_server.source.file_reader import ReadingCache, chunks_of
from fuselight_server.source.names import collect
from fuselight_server.source.syntax import inside_string

if TYPE_CHECKING:
    from collections.abc import Sequence

    from libcst.metadata import CodePosition

    from fuselight_server.source.facts import Chunk
    from fuselight_server.source.reading import Ignore, StaticTarget


_HEADED = (cst.If, cst.For, cst.With)
"""Statements whose header is evaluated once, so that something can stand above it."""
_BARRIERS = (
    *(cst.IndentedBlock, cst.SimpleStatementSuite, cst.While, cst.Match, cst.Decorator, cst.Parameters),
    *(cst.Lambda, cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp, cst.IfExp, cst.BooleanOperation),
)
"""Inside them the statement outside is no place to insert: what is in them runs again, later, or not at all."""


class _Finder(cst.CSTVisitor):
    """Finds the calls on a line that pass something for a parameter. Raises ParserSyntaxError or RecursionError."""

    def __init__(self, source: str, line: int, parameter: str, parameters: Sequence[str]) -> None:
        super().__init__()
        self.calls: list[tuple[str, tuple[int, int], tuple[int, str] | None]] = []
        """Calls that pass something for the parameter: the last part of the name, the columns, and the line of the
        statement with the name that is passed, None where it has no name."""
        self._rows = source.split("\n")
        self._line = line
        self._parameter = parameter
        self._parameters = parameters
        self._anchors: list[int | None] = [None]
        """Line of the statement above which to insert, None where that is not possible."""
        self._elif: set[cst.CSTNode] = set()
        wrapper = MetadataWrapper(cst.parse_module(source), unsafe_skip_copy=True)
        self._ranges = wrapper.resolve(PositionProvider)
        wrapper.module.visit(self)

    def on_visit(self, node: cst.CSTNode) -> bool:
        if isinstance(node, cst.If) and isinstance(node.orelse, cst.If):
            self._elif.add(node.orelse)
        if isinstance(node, cst.SimpleStatementLine) or (
            isinstance(node, _HEADED) and node not in self._elif
        ):
            self._anchors.append(self._ranges[node].start.line)
        elif isinstance(node, (*_HEADED, *_BARRIERS)):
            self._anchors.append(None)
        elif isinstance(node, cst.Call):
            self._look_at(node)
        return True

    def on_leave(self, original_node: cst.CSTNode) -> None:
        if isinstance(original_node, (cst.SimpleStatementLine, *_HEADED, *_BARRIERS)):
            self._anchors.pop()

    def _look_at(self, call: cst.Call) -> None:
        place, anchor = self._ranges[call], self._anchors[-1]
        if anchor is None or not place.start.line <= self._line <= place.end.line:
            return
        argument = self._argument(call.args)
        if argument is not None:
            site = (anchor, argument.value) if isinstance(argument, cst.Name) else None
            columns = (self._bytes(place.start), self._bytes(place.end))
            self.calls.append((_last_name(call.func), columns, site))

    def _bytes(self, at: CodePosition) -> int:
        return len(self._rows[at.line - 1][: at.column].encode())

    def _argument(self, arguments: Sequence[cst.Arg]) -> cst.BaseExpression | None:
        value: cst.BaseExpression | None = None
        for index, argument in enumerate(arguments):
            if argument.keyword is not None:
                if argument.keyword.value == self._parameter:
                    value = argument.value
            elif argument.star:
                return None
            elif index < len(self._parameters) and self._parameters[index] == self._parameter:
                value = argument.value
        return value


def _last_name(function: cst.BaseExpression) -> str:
    if isinstance(function, cst.Attribute):
        return function.attr.value
    return function.value if isinstance(function, cst.Name) else ""


_SHAPE = re.compile(r"\b[a-z]+\d*\[([^\]]*)\]")


def shape_columns(line: str) -> tuple[int, int] | None:
    """The byte columns of the first shape in a directive's line, without its brackets; else of its last arguments."""
    start = line.find("# fuselight:")
    match = _SHAPE.search(line, start) if start >= 0 else None
    if match is not None:
        ends = match.span(1)
    elif start >= 0 and line.rstrip().endswith(")"):
        ends = line.rindex("(") + 1, len(line.rstrip()) - 1
    else:
        return None
    first, last = (len(line[:end].encode("utf-8", "surrogatepass")) for end in ends)
    return first, last


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
    return insert_directives(text, target, [call_for(text, target)])


def insert_directives(text: str, target: StaticTarget, calls: Sequence[str]) -> list[TextEdit]:
    """Directives with these calls above `target`, in their order."""
    lines = lines_of(text)
    path, line = target.span.path, target.span.line
    if not calls or not 1 <= line <= len(lines):
        return []
    return [_insert_line(path, lines, line, *(f"# fuselight: {call}" for call in calls))]


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

    `parameters` are those of what is called, `self` excluded; `callee` is the last part of its name; the columns, in
    bytes, are those of the call, which is then known for certain. Empty when
    the argument there is not a plain name, when several calls fit, or when the statement is in a place before which
    nothing can be put (a loop's condition, a comprehension).
    """
    lines = lines_of(text)
    chunks = chunks_of(path, lines, ReadingCache())
    chunk = _chunk_at(chunks, line)
    if chunk is None:
        return []
    source = chunk.data.decode("utf-8", "replace")
    try:
        calls = _Finder(source, line - chunk.line + 1, parameter, parameters).calls
    except (cst.ParserSyntaxError, RecursionError):
        return []
    exact = [site for _, columns, site in calls if columns == (column, end_column)]
    named = [site for name, _, site in calls if name == callee]
    sites = set(exact or named or [site for _, _, site in calls])
    site = sites.pop() if len(sites) == 1 else None
    if site is None:
        return []
    imported = collect(chunk.facts for chunk in chunks).imported.items()
    torch = next((name for (scope, name), full in imported if not scope and full == "torch"), None)
    first = next((c.line for c in chunks if _IMPORT.match(c.data) and not _FUTURE.match(c.data)), None)
    if torch is None and first is None:
        return []
    importing = [_insert_line(path, lines, first, "import torch")] if torch is None and first else []
    at, argument = chunk.line + site[0] - 1, site[1]
    statement = f"{torch or 'torch'}._dynamo.mark_dynamic({argument}, {dimension})"
    if at > 1 and lines[at - 2].strip().decode("utf-8", "replace") == statement:
        return []
    return [*importing, _insert_line(path, lines, at, statement)]


def insert_ignore(path: str, text: str, line: int, code: str) -> list[TextEdit]:
    """Return the edit that adds `# fuselight: ignore[code]` to `line`, or `code` to the line's existing ignore.

    Empty if the line already ignores the code, or cannot end in a comment: inside a string, or after a backslash.
    """
    lines = lines_of(text)
    if not 1 <= line <= len(lines):
        return []
    data = lines[line - 1].rstrip(b"\r\n")
    present = _ignore_at(path, text, line)
    if present is not None:
        if not present.codes or code in present.codes:
            return []
        closes = data.index(b"]", present.span.start[1])
        return [TextEdit(Span(path, line, closes, line, closes), f", {code}")]
    if data.endswith(b"\\") or _ends_in_string(path, lines, line):
        return []
    kept = data.rstrip()
    gap = "  " if kept and not kept.isspace() else ""
    span = Span(path, line, len(kept), line, len(data))
    return [TextEdit(span, f"{gap}# fuselight: ignore[{code}]")]


def move_directive(path: str, text: str, line: int, above: int) -> list[TextEdit]:
    """The directive on `line` to a line of its own above the line `above`."""
    lines = lines_of(text)
    if not (1 <= line <= len(lines) and 1 <= above <= len(lines)):
        return []
    data = lines[line - 1].rstrip(b"\r\n")
    match = _DIRECTIVE.search(data)
    if match is None:
        return []
    code = data[: match.start()].rstrip()
    if code or line == len(lines):
        removed = TextEdit(Span(path, line, len(code), line, len(data)), "")
    else:
        removed = TextEdit(Span(path, line, 0, line + 1, 0), "")
    return [_insert_line(path, lines, above, match[0].decode("utf-8", "replace").rstrip()), removed]


def remove_ignore(path: str, text: str, line: int, code: str | None = None) -> list[TextEdit]:
    """`code` out of the ignore on `line`; the whole comment when nothing else is in it, or when `code` is None."""
    present = _ignore_at(path, text, line)
    if present is None or (code is not None and code not in present.codes):
        return []
    lines = lines_of(text)
    data = lines[line - 1].rstrip(b"\r\n")
    start = present.span.start[1]
    left = tuple(item for item in present.codes if item != code)
    if code is not None and left:
        opens, closes = data.index(b"[", start) + 1, data.index(b"]", start)
        return [TextEdit(Span(path, line, opens, line, closes), ", ".join(left))]
    if not data[:start].strip() and line < len(lines):
        return [TextEdit(Span(path, line, 0, line + 1, 0), "")]
    return [TextEdit(Span(path, line, len(data[:start].rstrip()), line, len(data)), "")]


def _ignore_at(path: str, text: str, line: int) -> Ignore | None:
    return next((ignore for ignore in read_source(path, text).ignores if ignore.span.line == line), None)


def _chunk_at(chunks: list[Chunk], line: int) -> Chunk | None:
    return next((chunk for chunk in reversed(chunks) if chunk.line <= line), None)


def _ends_in_string(path: str, lines: list[bytes], line: int) -> bool:
    chunk = _chunk_at(chunks_of(path, lines, ReadingCache()), line)
    if chunk is None:
        return False
    rows = chunk.data.splitlines(keepends=True)[: line - chunk.line + 1]  # an empty last line is no row
    end = sum(map(len, rows))
    return end > 0 and rows[-1].endswith(b"\n") and inside_string(chunk.data, end - 1)


def _insert_line(path: str, lines: list[bytes], line: int, *new: str) -> TextEdit:
    """Each of `new` on a line of its own above `line`, indented and ended as that line is."""
    there = lines[line - 1]
    start = len(_BOM) if line == 1 and there.startswith(_BOM) else 0
    body = there[start:].rstrip(b"\r\n")
    indent = body[: len(body) - len(body.lstrip())].decode()
    ended = next((end for end in (_line_end(there), _line_end(lines[0])) if end), "\n")
    return TextEdit(Span(path, line, start, line, start), "".join(f"{indent}{text}{ended}" for text in new))


def _line_end(line: bytes) -> str:
    return line[len(line.rstrip(b"\r\n")) :].decode()
