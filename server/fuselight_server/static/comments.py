"""`# fuselight:` comments: which target a directive belongs to, what an ignore silences, and what cannot be read.

A directive stands alone on its line, in the run of comment lines directly above a `def`, `class` (or their decorators)
or assignment, or between decorators and `def`. An ignore silences findings on its own line.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuselight.inputs import DirectiveError, parse_directive
from fuselight.protocol import DirectiveLine
from fuselight_server.finding import Span
from fuselight_server.static.reading import DirectiveProblem, Ignore

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fuselight_server.static.facts import Comment
    from fuselight_server.static.reading import StaticTarget

_IGNORE = re.compile(r"ignore(?![\w(.])\s*(?P<rest>.*)$")
_CODES = re.compile(r"\[(?P<codes>[^\]]*)\]")
_CODE = re.compile(r"(?:GB|FL)\d+$")
_REASON = re.compile(r"\s*(?:#|-|:|$)")
"""What may follow an ignore: nothing, or the reason for it."""


@dataclass(frozen=True)
class Comments:
    """The `# fuselight:` comments of a file, read."""

    directives: Mapping[int, DirectiveLine]
    """By line."""
    ignores: tuple[Ignore, ...]
    problems: tuple[DirectiveProblem, ...]


def read_comments(comments: Iterable[tuple[int, Comment]], path: str) -> Comments:
    """Sort `comments`, each with its line, into directives and ignores."""
    directives: dict[int, DirectiveLine] = {}
    ignores: list[Ignore] = []
    problems: list[DirectiveProblem] = []
    for line, comment in comments:
        ignore = _IGNORE.match(comment.text)
        if ignore is not None:
            read = _ignore(line, comment, ignore["rest"], path)
            if isinstance(read, Ignore):
                ignores.append(read)
            else:
                problems.append(read)
            continue
        directive = DirectiveLine(line=line, column=comment.text_column, text=comment.text)
        if not comment.alone:
            message = "a directive stands on a line of its own, above the definition"
            problems.append(DirectiveProblem(_text_span(path, directive), message))
            continue
        directives[line] = directive
        wrong = _grammar_problem(comment.text)
        if wrong is not None:
            message, start, end = wrong
            span = Span(path, line, directive.column + start, line, directive.column + end)
            problems.append(DirectiveProblem(span, message))
    return Comments(directives, tuple(ignores), tuple(problems))


def attach(
    directives: Mapping[int, DirectiveLine], targets: Sequence[StaticTarget], lines: Sequence[bytes]
) -> tuple[dict[int, tuple[DirectiveLine, ...]], tuple[DirectiveLine, ...]]:
    """The directives of each target, by its index, and those above nothing that can be compiled."""
    starts: dict[int, int] = {}
    for index, target in enumerate(targets):
        starts.setdefault(target.span.line, index)
    owned: dict[int, list[DirectiveLine]] = {}
    orphans: list[DirectiveLine] = []
    below = 0
    for line, directive in sorted(directives.items()):
        below = max(below, line + 1)
        while below <= len(lines) and lines[below - 1].lstrip()[:1] == b"#":
            below += 1
        owner = starts.get(below)
        if owner is None:
            owner = next((i for i, t in enumerate(targets) if t.span.line < below <= t.def_line), None)
        if owner is None:
            orphans.append(directive)
        else:
            owned.setdefault(owner, []).append(directive)
    return {index: tuple(found) for index, found in owned.items()}, tuple(orphans)


def orphan_problem(directive: DirectiveLine, path: str) -> DirectiveProblem:
    """What to say about a directive that belongs to nothing."""
    message = "nothing to compile below: a directive stands directly above a def, a class or an assignment"
    return DirectiveProblem(_text_span(path, directive), message)


def _ignore(line: int, comment: Comment, rest: str, path: str) -> Ignore | DirectiveProblem:
    span = Span(path, line, comment.column, line, comment.end_column)
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
def _grammar_problem(text: str) -> tuple[str, int, int] | None:
    try:
        parse_directive(text)
    except DirectiveError as error:
        return error.message, error.start, error.end
    return None


def _text_span(path: str, directive: DirectiveLine) -> Span:
    end = directive.column + len(directive.text.encode("utf-8", "replace"))
    return Span(path, directive.line, directive.column, directive.line, end)
