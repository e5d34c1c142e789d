"""A whole file to its Reading: cut, read each chunk, resolve names, attach comments.

Invariant: the Reading is a function of path and text. A `ReadingCache` only saves work: it keeps answers by the
content they came from, and forgets those that the last reading did not use.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import operator
import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from fuselight.shared.notebooks.cells import SUFFIX
from fuselight.shared.protocol import DirectiveLine
from fuselight_server.base.finding import Span
from fuselight_server.source.chunks import Memory, States, cut
from fuselight_server.source.comments import TargetsByName, attach, misplaced, read_comments
from fuselight_server.source.facts import Chunk, Facts, Outline
from fuselight_server.source.imported_classes import ImportedClasses
from fuselight_server.source.names import Names, collect
from fuselight_server.source.reading import DirectiveProblem, Reading, StaticTarget
from fuselight_server.source.syntax import read_chunk
from fuselight_server.source.targets import PROVIDER, Candidate, assignments, candidates

_BOM = b"\xef\xbb\xbf"
_LONE_CR = re.compile(rb"\r(?!\n)")


@dataclass
class ReadingCache:
    """What readings of one document share. Use it from one thread at a time."""

    pieces: States = field(default_factory=Memory)
    facts: Memory[bytes, tuple[Facts, Outline]] = field(default_factory=Memory)
    whole: tuple[Outline, ...] = ()
    """The outlines that `names` came from, in the order of the file."""
    names: Names = field(default_factory=Names)
    imported_classes: ImportedClasses | None = None
    candidates: Memory[tuple[bytes, int, int], tuple[Candidate, ...]] = field(default_factory=Memory)


def read_lines(path: str, lines: list[bytes], cache: ReadingCache) -> Reading:
    """Read the file at `path` whose text, in UTF-8, is `lines`, each with its line end.

    This runs at each keystroke, so the work for a chunk that did not change comes from `cache`. Variables are read only
    if a directive has no function below it: looking for them costs more than all else, and few files need them. A
    directive that has no owner is not reported while the file does not parse, as its owner may be in the broken part.
    """
    chunks = chunks_of(path, lines, cache)
    _resolve(path, chunks, cache)
    names = cache.names
    cache.candidates.turn()
    actual_candidates = [
        candidate
        for chunk in chunks
        if chunk.outline or chunk.facts.compile_calls
        for candidate in cache.candidates.get(
            (chunk.data, chunk.line, chunk.column), functools.partial(candidates, chunk, names)
        )
    ]
    comments = read_comments(chunks)
    owners = _Owners(actual_candidates)
    orphans = owners.adopt(
        attach(comments.directives, [candidate.target for candidate in actual_candidates], lines)
    )
    lost: list[DirectiveProblem] = []
    if orphans or comments.inline:
        variables = [variable for chunk in chunks for variable in assignments(chunk, names)]
        orphans = owners.adopt(attach(orphans, variables, lines))
        targets = TargetsByName([*(candidate.target for candidate in actual_candidates), *variables])
        lost += (misplaced(line, path, targets.called_by(line)) for line in comments.inline)
        for directive in orphans:
            called = targets.called_by(directive)
            if called is not None and lines[directive.line - 1][:1] == b"#":
                owners.give(called, directive)
            else:
                lost.append(misplaced(directive, path, called))
    broken = [chunk for chunk in chunks if chunk.facts.error]
    error = next((chunk.span(chunk.facts.error) for chunk in broken if chunk.facts.error), None)
    problems = list(comments.problems)
    if error is None:
        wrong = {problem.span.line for problem in problems}
        problems.extend(problem for problem in lost if problem.span.line not in wrong)
    provider_line = _provider_line(chunks)
    return Reading(
        path=path,
        targets=_last_of_each_name(owners.targets()) if path.endswith(SUFFIX) else owners.targets(),
        ignores=comments.ignores,
        directive_problems=tuple(sorted(problems, key=lambda problem: problem.span.start)),
        main_line=next((c.line + c.facts.main_row for c in chunks if c.facts.main_row is not None), None),
        syntax_error=error,
        broken=tuple(
            Span(path, chunk.line, end_line=chunk.line + chunk.data.rstrip().count(b"\n")) for chunk in broken
        ),
        provider=PROVIDER if provider_line is not None else None,
        provider_line=provider_line,
    )


def _last_of_each_name(targets: tuple[StaticTarget, ...]) -> tuple[StaticTarget, ...]:
    """The targets of a notebook: a cell that defines a name again replaces what earlier cells defined."""
    last = {target.name: target for target in targets}
    return tuple(target for target in targets if last[target.name] is target)


def chunks_of(path: str, lines: list[bytes], cache: ReadingCache) -> list[Chunk]:
    """The top-level chunks of the file at `path` whose text, in UTF-8, is `lines`."""
    data = b"".join(lines)
    column = len(_BOM) if data.startswith(_BOM) else 0
    data = data[column:]
    if b"\r" in data:
        data = _LONE_CR.sub(b"\n", data)
    chunks: list[Chunk] = []
    cache.facts.turn()
    line = 1
    for piece in cut(data, cache.pieces):
        facts, outline = cache.facts.get(piece, functools.partial(_facts, piece))
        chunks.append(Chunk(path, line, 0 if chunks else column, piece, facts, outline))
        line += piece.count(b"\n")
    return chunks


def _facts(piece: bytes) -> tuple[Facts, Outline]:
    facts = read_chunk(piece)
    return facts, facts.outline()


def _resolve(path: str, chunks: list[Chunk], cache: ReadingCache) -> None:
    """Bring the file's names up to date, which few keystrokes change."""
    imported = cache.imported_classes
    is_stale = imported is None or imported.path != path or imported.are_stale()
    if imported is None or is_stale:
        imported = cache.imported_classes = ImportedClasses(path)
    whole = tuple(chunk.outline for chunk in chunks if chunk.outline)
    if whole == cache.whole and not is_stale:  # quick: what did not change is the same object
        return
    cache.whole = whole
    names = collect((chunk.facts for chunk in chunks), imported)
    if names != cache.names or is_stale:
        cache.names, cache.candidates = names, Memory()


class _Owners:
    """The candidates of a file, to which directives are given; a variable under a directive becomes a candidate."""

    def __init__(self, candidates: list[Candidate]) -> None:
        self._candidates = candidates
        self._owned: collections.defaultdict[int, list[DirectiveLine]] = collections.defaultdict(list)
        self._index = {id(candidate.target): at for at, candidate in enumerate(candidates)}
        self._listed = {
            candidate.target.name: at
            for at, candidate in reversed([*enumerate(candidates)])
            if candidate.listed
        }

    def give(self, target: StaticTarget, directive: DirectiveLine) -> None:
        """Add a directive to a target's. `model = Net()` and a later `model.compile()` are one target."""
        at = self._index.get(id(target), self._listed.get(target.name))
        if at is None:
            at = self._index[id(target)] = len(self._candidates)
            self._candidates.append(Candidate(target, listed=False))
        self._owned[at].append(directive)

    def adopt(self, attached: Iterable[tuple[DirectiveLine, StaticTarget | None]]) -> list[DirectiveLine]:
        """Give each directive to the target that it is attached to; returns those that are attached to none."""
        orphans = []
        for directive, target in attached:
            if target is None:
                orphans.append(directive)
            else:
                self.give(target, directive)
        return orphans

    def targets(self) -> tuple[StaticTarget, ...]:
        """What is listed, in the order of the source, each with its directives."""
        by_line = operator.attrgetter("line")
        return tuple(
            dataclasses.replace(item.target, directives=tuple(sorted(self._owned[index], key=by_line)))
            if index in self._owned
            else item.target
            for index, item in sorted(
                enumerate(self._candidates), key=lambda pair: pair[1].target.name_span.start
            )
            if item.listed or index in self._owned
        )


def _provider_line(chunks: list[Chunk]) -> int | None:
    for chunk in chunks:
        for item in chunk.facts.definitions:
            if item.name == PROVIDER and not item.scope and not item.is_class:
                return chunk.line + item.def_row
    return None
