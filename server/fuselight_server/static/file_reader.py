"""A whole file to its Reading: cut, read each chunk, resolve names, attach comments.

Invariant: the Reading is a function of path and text. A `ReadingCache` only saves work: it keeps answers by the
content they came from, and forgets those that the last reading did not use.
"""

from __future__ import annotations

import dataclasses
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fuselight_server.finding import Span
from fuselight_server.static.chunks import ChunkCache, cut
from fuselight_server.static.comments import TargetsByName, attach, misplaced, read_comments
from fuselight_server.static.facts import Comment, Facts
from fuselight_server.static.imported_classes import ImportedClasses
from fuselight_server.static.names import Names, Outline, collect, outline
from fuselight_server.static.reading import DirectiveProblem, Reading
from fuselight_server.static.syntax import read_chunk
from fuselight_server.static.targets import PROVIDER, Candidate, assignments, candidates

if TYPE_CHECKING:
    from fuselight.protocol import DirectiveLine
    from fuselight_server.static.reading import StaticTarget

_BOM = b"\xef\xbb\xbf"
_LONE_CR = re.compile(rb"\r(?!\n)")


@dataclass(frozen=True)
class _Chunk:
    data: bytes
    facts: Facts
    line: int
    column: int
    """Bytes before the chunk's first row: 3 after a byte order mark, else 0."""


@dataclass
class ReadingCache:
    """What readings of one document share. Use it from one thread at a time."""

    pieces: ChunkCache = field(default_factory=ChunkCache)
    facts: dict[bytes, Facts] = field(default_factory=dict)
    outlines: dict[bytes, Outline] = field(default_factory=dict)
    whole: tuple[Outline, ...] = ()
    """The outlines that `names` came from, in the order of the file."""
    names: Names = field(default_factory=Names)
    imported_classes: ImportedClasses | None = None
    candidates: dict[tuple[bytes, int], tuple[Candidate, ...]] = field(default_factory=dict)


def read_lines(path: str, lines: list[bytes], cache: ReadingCache) -> Reading:
    """Read the file at `path` whose text, in UTF-8, is `lines`, each with its line end."""
    chunks = _chunks(b"".join(lines), cache)
    _resolve(path, chunks, cache)
    found = _candidates(path, chunks, cache)
    comments = read_comments(
        ((c.line + item.row, _shifted(c, item)) for c in chunks for item in c.facts.comments), path
    )
    owned, orphans = attach(comments.directives, [candidate.target for candidate in found], lines)
    owners = _Owners(found, owned)
    lost: list[DirectiveProblem] = []
    if orphans or comments.inline:
        variables = _variables(path, chunks, cache.names)
        adopted, orphans = attach({one.line: one for one in orphans}, variables, lines)
        for index, directives in adopted.items():
            owners.give(variables[index], directives)
        targets = TargetsByName([*(one.target for one in found), *variables])
        lost += (misplaced(one, path, targets.called_by(one)) for one in comments.inline)
        for directive in orphans:
            called = targets.called_by(directive)
            if called is not None and lines[directive.line - 1][:1] == b"#":
                owners.give(called, (directive,))
            else:
                lost.append(misplaced(directive, path, called))
    error = next((_error(path, chunk) for chunk in chunks if chunk.facts.error), None)
    problems = list(comments.problems)
    if error is None:
        wrong = {problem.span.line for problem in problems}
        problems.extend(one for one in lost if one.span.line not in wrong)
    provider_line = _provider_line(chunks)
    return Reading(
        path=path,
        targets=owners.targets(),
        ignores=comments.ignores,
        directive_problems=tuple(sorted(problems, key=_place)),
        main_line=next((c.line + c.facts.main_row for c in chunks if c.facts.main_row is not None), None),
        syntax_error=error,
        broken=tuple(_lines_of(path, chunk) for chunk in chunks if chunk.facts.error) if error else (),
        provider=PROVIDER if provider_line is not None else None,
        provider_line=provider_line,
    )


def _chunks(data: bytes, cache: ReadingCache) -> list[_Chunk]:
    column = len(_BOM) if data.startswith(_BOM) else 0
    data = data[column:]
    if b"\r" in data:
        data = _LONE_CR.sub(b"\n", data)
    chunks: list[_Chunk] = []
    used: dict[bytes, Facts] = {}
    line = 1
    for piece in cut(data, cache.pieces):
        facts = used.get(piece) or cache.facts.get(piece) or read_chunk(piece)
        used[piece] = facts
        chunks.append(_Chunk(piece, facts, line, 0 if chunks else column))
        line += piece.count(b"\n")
    cache.facts = used
    return chunks


def _resolve(path: str, chunks: list[_Chunk], cache: ReadingCache) -> None:
    """Bring the file's names up to date, which few keystrokes change."""
    imported = cache.imported_classes
    is_stale = imported is None or imported.path != path or imported.are_stale()
    if imported is None or is_stale:
        imported = cache.imported_classes = ImportedClasses(path)
    used: dict[bytes, Outline] = {}
    for chunk in chunks:
        if chunk.data not in used:
            used[chunk.data] = cache.outlines.get(chunk.data) or outline(chunk.facts)
    cache.outlines = used
    whole = tuple(used[chunk.data] for chunk in chunks if used[chunk.data])
    if whole == cache.whole and not is_stale:  # quick: what did not change is the same object
        return
    cache.whole = whole
    names = collect((chunk.facts for chunk in chunks), imported)
    if names != cache.names or is_stale:
        cache.names, cache.candidates = names, {}


def _candidates(path: str, chunks: list[_Chunk], cache: ReadingCache) -> list[Candidate]:
    found: list[Candidate] = []
    used: dict[tuple[bytes, int], tuple[Candidate, ...]] = {}
    for chunk in chunks:
        facts = chunk.facts
        if not (facts.definitions or facts.bindings or facts.compile_calls):
            continue
        key = (chunk.data, chunk.line)
        made = None if chunk.column else cache.candidates.get(key)
        if made is None:
            made = candidates(facts, cache.names, path=path, line=chunk.line, column=chunk.column)
        if not chunk.column:
            used[key] = made
        found.extend(made)
    cache.candidates = used
    return found


def _variables(path: str, chunks: list[_Chunk], names: Names) -> list[StaticTarget]:
    """Every assigned variable of the file as a target, none of them compiled by the source."""
    return [
        variable
        for chunk in chunks
        if chunk.facts.bindings
        for variable in assignments(chunk.facts, names, path=path, line=chunk.line, column=chunk.column)
    ]


class _Owners:
    """The candidates of a file, to which directives are given; a variable under a directive becomes a candidate."""

    def __init__(self, found: list[Candidate], owned: dict[int, tuple[DirectiveLine, ...]]) -> None:
        self._found = found
        self._owned = {index: list(directives) for index, directives in owned.items()}
        self._index = {id(one.target): at for at, one in enumerate(found)}
        self._listed = {one.target.name: at for at, one in reversed([*enumerate(found)]) if one.listed}

    def give(self, target: StaticTarget, directives: tuple[DirectiveLine, ...]) -> None:
        """Add directives to a target's. `model = Net()` and a later `model.compile()` are one target."""
        at = self._index.get(id(target), self._listed.get(target.name))
        if at is None:
            at = self._index[id(target)] = len(self._found)
            self._found.append(Candidate(target, listed=False))
        self._owned.setdefault(at, []).extend(directives)

    def targets(self) -> tuple[StaticTarget, ...]:
        """What is listed, in the order of the source, each with its directives."""
        return tuple(
            dataclasses.replace(item.target, directives=tuple(sorted(self._owned[index], key=_line)))
            if index in self._owned
            else item.target
            for index, item in sorted(enumerate(self._found), key=_name_place)
            if item.listed or index in self._owned
        )


def _shifted(chunk: _Chunk, comment: Comment) -> Comment:
    if not chunk.column or comment.row:
        return comment
    by = chunk.column
    return dataclasses.replace(
        comment,
        column=comment.column + by,
        text_column=comment.text_column + by,
        end_column=comment.end_column + by,
    )


def _lines_of(path: str, chunk: _Chunk) -> Span:
    return Span(path, chunk.line, end_line=chunk.line + max(chunk.data.rstrip().count(b"\n"), 0))


def _error(path: str, chunk: _Chunk) -> Span | None:
    at = chunk.facts.error
    if at is None:
        return None
    column = at.column + (chunk.column if at.row == 0 else 0)
    end_column = at.end_column + (chunk.column if at.end_row == 0 else 0)
    return Span(path, chunk.line + at.row, column, chunk.line + at.end_row, end_column)


def _provider_line(chunks: list[_Chunk]) -> int | None:
    for chunk in chunks:
        for item in chunk.facts.definitions:
            if item.name == PROVIDER and not item.scope and not item.is_class:
                return chunk.line + item.def_row
    return None


def _line(directive: DirectiveLine) -> int:
    return directive.line


def _name_place(item: tuple[int, Candidate]) -> tuple[int, int]:
    span = item[1].target.name_span
    return span.line, span.column or 0


def _place(problem: DirectiveProblem) -> tuple[int, int]:
    return problem.span.line, problem.span.column or 0


def chunks_of(text: bytes) -> list[tuple[int, bytes]]:
    """The top-level chunks of `text` with the 1-based line of each, for edits: byte order mark and lone CR as read."""
    return [(chunk.line, chunk.data) for chunk in _chunks(text, ReadingCache())]
