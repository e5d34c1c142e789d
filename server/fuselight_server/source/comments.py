"""`# fuselight:` comments: the target of each directive, what an ignore silences, and what cannot be read.

A directive is a line of its own. It belongs to the `def`, `class` or assignment directly below it, decorators and other
comments between them aside; a directive at the top level may also stand anywhere else and belongs to the name of the
file that it calls. An ignore silences findings on its own line.
"""

from __future__ import annotations

import ast
import functools
import operator
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from fuselight.shared.inputs import DirectiveError, parse_directive
from fuselight.shared.notebooks.commands import MARKER
from fuselight.shared.protocol import DirectiveLine
from fuselight_server.base.finding import Span
from fuselight_server.source.facts import Chunk
from fuselight_server.source.reading import DirectiveProblem, Ignore, StaticTarget

_CELL = MARKER.encode()
_IGNORE = re.compile(r"ignore(?![\w(.])\s*(?P<rest>.*)$")
_CODES = re.compile(r"\[(?P<codes>[^\]]*)\]")
_CODE = re.compile(r"(?:GB|FL)\d+$")
_REASON = re.compile(r"\s*(?:#|-|:|$)")
"""What may follow an ignore: nothing, or the reason for it."""


@dataclass(frozen=True)
class Comments:
    """The `# fuselight:` comments of a file, read."""

    directives: tuple[DirectiveLine, ...]
    inline: tuple[DirectiveLine, ...]
    """Directives after code on the same line, where they do not count."""
    ignores: tuple[Ignore, ...]
    problems: tuple[DirectiveProblem, ...]


def read_comments(chunks: Iterable[Chunk]) -> Comments:
    """Sort the comments of a file's chunks into directives and ignores."""
    directives: list[DirectiveLine] = []
    inline: list[DirectiveLine] = []
    ignores: list[Ignore] = []
    problems: list[DirectiveProblem] = []
    for chunk, comment in ((owner, comment) for owner in chunks for comment in owner.facts.comments):
        span = chunk.span(comment.extent)
        ignore = _IGNORE.match(comment.text)
        if ignore is not None:
            read = _ignore(span, ignore["rest"])
            if isinstance(read, Ignore):
                ignores.append(read)
            else:
                problems.append(read)
            continue
        column = chunk.file_column(comment.extent.row, comment.text_column)
        directive = DirectiveLine(line=span.line, column=column, text=comment.text)
        if not comment.alone:
            inline.append(directive)
            continue
        directives.append(directive)
        wrong = _parsed(comment.text)[0]
        if wrong is not None:
            message, start, end = wrong
            place = Span(chunk.path, span.line, column + start, span.line, column + end)
            problems.append(DirectiveProblem(place, message))
    return Comments(tuple(directives), tuple(inline), tuple(ignores), tuple(problems))


def attach(
    directives: Iterable[DirectiveLine], targets: Iterable[StaticTarget], lines: Sequence[bytes]
) -> Iterator[tuple[DirectiveLine, StaticTarget | None]]:
    """Each of the directives, which come by line, with the target that it is above, if there is one."""
    starts: dict[int, StaticTarget] = {}
    decorated: dict[int, StaticTarget] = {}
    for target in targets:
        starts.setdefault(target.span.line, target)
        for line in range(target.span.line + 1, target.def_line + 1):
            decorated.setdefault(line, target)
    below = 0
    for directive in directives:
        below = max(below, directive.line + 1)
        while below <= len(lines) and _is_comment(lines[below - 1]):
            below += 1
        yield directive, starts.get(below, decorated.get(below))


def _is_comment(line: bytes) -> bool:
    """Whether a line is a comment; the marker of a notebook's cell is none."""
    return line.lstrip()[:1] == b"#" and line.rstrip(b"\r\n") != _CELL


class TargetsByName:
    """The targets of a file that a directive can call from the top level."""

    def __init__(self, targets: Iterable[StaticTarget]) -> None:
        self._targets: dict[str, list[StaticTarget]] = {}
        for target in targets:
            self._targets.setdefault(target.name, []).append(target)

    def called_by(self, directive: DirectiveLine) -> StaticTarget | None:
        """The target that a directive calls: the nearest definition above it, else the first below."""
        name = _parsed(directive.text)[1]
        targets = self._targets.get(name) or self._targets.get(name.partition(".")[0], [])
        above = [target for target in targets if target.def_line < directive.line]
        by_line = operator.attrgetter("def_line")
        return max(above, key=by_line, default=None) or min(targets, key=by_line, default=None)


def misplaced(directive: DirectiveLine, path: str, called: StaticTarget | None) -> DirectiveProblem:
    """The problem of a directive that belongs to no target where it stands."""
    end = directive.column + len(directive.text.encode("utf-8", "replace"))
    span = Span(path, directive.line, directive.column, directive.line, end)
    if called is not None:
        place = f"line {called.span.line}"
        message = f"misplaced directive: move it to its own line above `{called.name}` ({place})"
        return DirectiveProblem(span, message, move_above=called.span.line)
    name = _parsed(directive.text)[1]
    unknown = f"`{name}` is not a top-level name of this file" if name else "it calls no name of this file"
    return DirectiveProblem(span, f"no target for this directive: {unknown}")


def _ignore(span: Span, rest: str) -> Ignore | DirectiveProblem:
    listed = _CODES.match(rest)
    codes = tuple(code.strip() for code in listed["codes"].split(",")) if listed else ()
    wrong = next((code for code in codes if not _CODE.match(code)), None)
    if wrong is not None:
        message = (
            f"not a code: {wrong}; codes look like GB0170 or FL201"
            if wrong
            else "name a code, as ignore[GB0170]"
        )
        return DirectiveProblem(span, message)
    if not _REASON.match(rest[listed.end() :] if listed else rest):
        return DirectiveProblem(
            span, "cannot be read: write `ignore[GB0170, FL201]`, or `ignore` for every code"
        )
    return Ignore(span, codes)


@functools.lru_cache(maxsize=8192)
def _parsed(text: str) -> tuple[tuple[str, int, int] | None, str]:
    """What is wrong with a directive, with its byte range, and the dotted name that it calls: `Net.step`."""
    try:
        callee = parse_directive(text).callee
    except DirectiveError as error:
        return (error.message, error.start, error.end), ""
    parts: list[str] = []
    while isinstance(callee, (ast.Attribute, ast.Call)):
        if isinstance(callee, ast.Attribute):
            parts.append(callee.attr)
        callee = callee.value if isinstance(callee, ast.Attribute) else callee.func
    return None, ".".join(reversed([*parts, callee.id])) if isinstance(callee, ast.Name) else ""
