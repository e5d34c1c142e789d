"""A divergence in words, on its line.

Invariant: texts of graphs and guards are read for one rank of each group that differs, and for no other.
"""

from __future__ import annotations

import collections
import itertools
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from fuselight.shared.report import GuardCause, Location, file_name
from fuselight_server.base.rank_words import ranks_in_words
from fuselight_server.jobs.ranks.alignment import OPEN_STATES, Divergence, kind_without_graphs
from fuselight_server.jobs.ranks.cures import SAME_GRADIENTS
from fuselight_server.jobs.ranks.digests import CompileDigest, RankDigest
from fuselight_server.jobs.ranks.graph_difference import (
    GraphDifference,
    SourceLines,
    UserLines,
    first_difference,
    parse_graph,
)
from fuselight_server.jobs.ranks.graph_words import GRAPH_KINDS, graph_words
from fuselight_server.jobs.ranks.guard_words import guard_line, guard_words, quoted_line
from fuselight_server.jobs.ranks.model import DifferenceKind, RankDifference, RankGroup
from fuselight_server.jobs.ranks.normalization import comparable_guards
from fuselight_server.jobs.ranks.sides import (
    RankSide,
    groups_with,
    others_in_words,
    ranks_of,
    short,
    sides_of,
)
from fuselight_server.jobs.reports.guard_reasons import GuardOrigins, read_mismatches
from fuselight_server.jobs.trace_log.files import LogError
from fuselight_server.jobs.trace_log.libraries import is_library
from fuselight_server.jobs.trace_log.model import AttemptState, Payload
from fuselight_server.jobs.trace_log.payloads import read_text

_KeyedCompile = tuple[tuple[object, ...], CompileDigest]

_MAX_PAIRS = 64
"""Groups of ranks that are compared with the largest one."""
_MAX_TEXTS = 2_000
"""Texts of logs that are kept: each difference needs a few."""


class Explainer:
    """Makes differences of divergences; texts that were read are kept while it lives."""

    def __init__(self, lines: SourceLines | None = None) -> None:
        """`lines`: the source of a file of the job."""
        self._lines = lines
        self._texts: dict[Payload, str] = {}
        self._graphs: dict[tuple[str, str], GraphDifference | None] = {}
        self.unread = 0
        """Texts that could not be read again."""

    def is_real(self, divergence: Divergence) -> bool:
        """Whether the compiles differ in what matters, now that the texts of graphs are read."""
        if divergence.kind is not DifferenceKind.GRAPH:
            return True
        return self._graph_changes(divergence) is not None or _later_kind(divergence) is not None

    def explain(self, divergence: Divergence) -> RankDifference:
        """The difference in words."""
        if divergence.kind is DifferenceKind.GRAPH:
            changes = self._graph_changes(divergence)
            if changes is not None:
                return self._of_graph(divergence, *changes)
            divergence = replace(divergence, kind=_later_kind(divergence) or DifferenceKind.GUARDS)
        method: Callable[[Divergence], RankDifference] = {
            DifferenceKind.RECOMPILATION: self._of_recompilation,
            DifferenceKind.RECOMPILE_LIMIT: self._of_limit,
            DifferenceKind.COMPILE: self._of_compile,
            DifferenceKind.GRAPH_BREAK: self._of_break,
            DifferenceKind.FAILURE: self._of_failure,
            DifferenceKind.UNFINISHED: self._of_unfinished,
            DifferenceKind.GUARDS: self._of_guards,
        }[divergence.kind]
        return method(divergence)

    # --- compiles that only some ranks have

    def _of_recompilation(self, divergence: Divergence) -> RankDifference:
        if not divergence.absent:
            return self._of_other_reasons(divergence)
        present = divergence.present
        rank = min(present)
        text, location, cause = self._reason(present[rank], divergence.earlier.get(rank))
        others = others_in_words(divergence.absent)
        message = f"{ranks_in_words(present)} compiled again here: {text} ({others} did not)"
        groups = (
            RankGroup(tuple(sorted(present)), f"compiled again: {text}"),
            RankGroup(tuple(divergence.absent), "did not compile again"),
        )
        return _difference(divergence, message, location, groups, cause=cause)

    def _of_other_reasons(self, divergence: Divergence) -> RankDifference:
        sides = sides_of(divergence, lambda content: content.reasons)
        parts: list[str] = []
        places: list[Location] = []
        for side in sides:
            if side.compiled.reasons is None:
                parts.append("compiled for the first time")
                continue
            text, place, _ = self._reason(side.compiled, divergence.earlier.get(side.ranks[0]))
            parts.append(f"compiled again: {text}")
            places += [place] if place is not None else []
        message = "; ".join(
            f"{ranks_in_words(side.ranks)} {part}" for side, part in zip(sides, parts, strict=True)
        )
        return _difference(divergence, message, places[0] if places else None, groups_with(sides, parts))

    def _reason(
        self, compiled: CompileDigest, earlier: CompileDigest | None
    ) -> tuple[str, Location | None, GuardCause | None]:
        """Why a rank compiled again, the line that made the guard that failed, and what changed."""
        home = compiled.location or (None if earlier is None else earlier.location)
        paths = set() if home is None else {home.path}
        paths |= set(self._graph_paths(compiled if compiled.graphs or earlier is None else earlier))
        mismatches = read_mismatches(
            compiled.reasons or (), GuardOrigins(compiled.symbols, paths, _user_frames)
        )
        if not mismatches or not mismatches[0].failures:
            return "no cache entry fit", home, None
        failure = mismatches[0].failures[0]
        if failure.born:
            return failure.difference, failure.born[-1], failure.cause
        guards = "" if earlier is None else self._text(earlier.guards)
        return failure.difference, guard_line(guards, failure.source, paths) or home, failure.cause

    def _graph_paths(self, compiled: CompileDigest) -> Iterable[str]:
        for payload in compiled.graphs:
            yield from re.findall(r"# File: (\S+?):\d+ in", self._text(payload))

    def _of_limit(self, divergence: Divergence) -> RankDifference:
        sides = sides_of(divergence, lambda content: content.state is AttemptState.REFUSED)
        refused = next(side for side in sides if _has_state(side, AttemptState.REFUSED))
        others = sorted({*divergence.compiles} - {*refused.ranks})
        text, location, _ = self._reason(refused.compiled, divergence.earlier.get(refused.ranks[0]))
        message = (
            f"{ranks_in_words(refused.ranks)} reached the recompile limit here: {text} "
            f"({others_in_words(others)} did not)"
        )
        groups = RankGroup(refused.ranks, f"no longer compiled: {text}"), RankGroup(tuple(others), "compiled")
        return _difference(divergence, message, location, groups)

    def _of_compile(self, divergence: Divergence) -> RankDifference:
        present = divergence.present
        compiled = present[min(present)]
        name, location = compiled.name, compiled.location
        what = "compiled the module that this line calls" if name is None else f"compiled `{name}`"
        if compiled.content.resumed_at is not None:
            what += f" from line {compiled.content.resumed_at} on, after a graph break"
            location = self._first_line(compiled) or location
        message = f"only {ranks_in_words(present)} {what}"
        if len(present) > len(divergence.absent):
            message = f"{ranks_in_words(present)} {what} ({others_in_words(divergence.absent)} did not)"
        groups = RankGroup(tuple(sorted(present)), what), RankGroup(tuple(divergence.absent), "did not")
        return _difference(divergence, message, location, groups)

    def _first_line(self, compiled: CompileDigest) -> Location | None:
        """The first user's line in a compile's graph."""
        for payload in compiled.graphs:
            for path, line, function in re.findall(r"# File: (\S+?):(\d+) in ([^,\n]+)", self._text(payload)):
                if not is_library(path):
                    return Location(path, int(line), function=function)
        return None

    def order_of_collectives(self, ranks: Mapping[int, RankDigest]) -> RankDifference | None:
        """Where ranks compile the same collectives in another order; None if they do not."""
        sequences = {rank: _collective_sequence(item) for rank, item in ranks.items()}
        by_sequence: dict[tuple[object, ...], list[int]] = collections.defaultdict(list)
        for rank, sequence in sequences.items():
            by_sequence[tuple(key for key, _ in sequence)].append(rank)
        if len(by_sequence) == 1 or len({frozenset(sequence) for sequence in by_sequence}) > 1:
            return None
        groups = sorted(by_sequence.values(), key=lambda group: (len(group), -min(group)))
        odd, reference = groups[0], groups[-1]
        pairs = zip(sequences[odd[0]], sequences[reference[0]], strict=True)
        mine, theirs = next((left[1], right[1]) for left, right in pairs if left[0] != right[0])
        location, is_exact = self._first_collective(mine)
        return RankDifference(
            kind=DifferenceKind.COLLECTIVES,
            message=f"{ranks_in_words(odd)} compiled the collectives of {_name(mine)} first, "
            f"{others_in_words(reference)} those of {_name(theirs)}",
            location=location or mine.user_line,
            is_exact=is_exact or location is None,
            function=mine.name,
            compile_ids=(mine.id, theirs.id),
            groups=tuple(RankGroup(tuple(group)) for group in groups),
            seconds=None,
            time=mine.started,
        )

    def _first_collective(self, compiled: CompileDigest) -> tuple[Location | None, bool]:
        for payload in compiled.graphs:
            graph = parse_graph(self._text(payload))
            for index, node in enumerate(graph.nodes):
                if node.collective is not None:
                    return UserLines(
                        self._text(compiled.guards), self._lines, compiled.location
                    ).of_collective(graph, index)
        return None, False

    # --- how a compile went on

    @staticmethod
    def _of_break(divergence: Divergence) -> RankDifference:
        sides = sides_of(divergence, lambda content: content.breaks)
        ended = [side for side in sides if side.compiled.content.state not in OPEN_STATES]
        sides = ended if len(ended) > 1 else sides  # a compile that did not end may lack the later breaks
        rows = itertools.zip_longest(*(side.compiled.content.breaks for side in sides))
        index = next(position for position, row in enumerate(rows) if len(set(row)) > 1)
        at = [side.compiled.breaks[index] if index < len(side.compiled.breaks) else None for side in sides]
        location, title = next(item for item in at if item is not None)
        pairs = list(zip(sides, at, strict=True))
        breaking = ranks_of(side for side, item in pairs if item == (location, title))
        others = ranks_of(side for side, item in pairs if item != (location, title))
        message = f"the graph breaks here only on {ranks_in_words(breaking)}: {short(title)}"
        if len(breaking) > len(others):
            where = f"{ranks_in_words(breaking)}, not on {ranks_in_words(others)}"
            message = f"the graph breaks here on {where}: {short(title)}"
        related = tuple(
            (item[0], f"the graph of {ranks_in_words(side.ranks)} breaks here: {short(item[1])}")
            for side, item in pairs
            if item is not None and item != (location, title)
        )
        parts = ["no graph break" if item is None else f"graph break: {short(item[1])}" for item in at]
        return _difference(divergence, message, location, groups_with(sides, parts), related=related)

    @staticmethod
    def _of_failure(divergence: Divergence) -> RankDifference:
        sides = sides_of(divergence, lambda content: (content.state is AttemptState.FAILED, content.error))
        failed = [side for side in sides if _has_state(side, AttemptState.FAILED)]
        parts = [f"failed: {_error(side)}" if side in failed else "compiled" for side in sides]
        message = f"the compile failed only on {ranks_in_words(failed[0].ranks)}: {_error(failed[0])}"
        if len(failed) == len(sides):
            message = "; ".join(
                f"the compile {part} on {ranks_in_words(side.ranks)}"
                for side, part in zip(sides, parts, strict=True)
            )
        return _difference(divergence, message, _compiled_line(divergence), groups_with(sides, parts))

    @staticmethod
    def _of_unfinished(divergence: Divergence) -> RankDifference:
        sides = sides_of(divergence, lambda content: content.state is AttemptState.UNFINISHED)
        open_ranks = ranks_of(side for side in sides if _has_state(side, AttemptState.UNFINISHED))
        others = ranks_of(side for side in sides if not _has_state(side, AttemptState.UNFINISHED))
        whose = "the logs" if len(open_ranks) > 1 else "its log"
        verb = "have" if len(others) > 1 else "has"
        message = (
            f"the compile of {ranks_in_words(open_ranks)} had not ended when {whose} ended "
            f"({others_in_words(others)} {verb} finished it)"
        )
        groups = RankGroup(open_ranks, "not finished"), RankGroup(others, "finished")
        return _difference(divergence, message, _compiled_line(divergence), groups)

    # --- guards

    def _of_guards(self, divergence: Divergence) -> RankDifference:
        sides = sides_of(divergence, lambda content: (content.guards, content.has_backward))
        odd, reference = sides[0], sides[-1]
        guards = [comparable_guards(self._text(side.compiled.guards)) for side in (odd, reference)]
        only = [
            [line for key, line in mine.items() if key not in theirs]
            for mine, theirs in (guards, reversed(guards))
        ]
        if only[0] or only[1]:
            *words, cure = guard_words(*only)
        else:
            words, cure = [_backward_words(odd), _backward_words(reference)], SAME_GRADIENTS
        paths = {path for side in (odd, reference) for path in self._graph_paths(side.compiled)}
        places = (quoted_line(line, paths) for line in (*only[0], *only[1]))
        location = next((place for place in places if place is not None), None)
        message = (
            f"the same graph has other guards: {words[0]} ({ranks_in_words(odd.ranks)}), "
            f"{words[1]} ({others_in_words(reference.ranks)})"
        )
        parts = [words[0], *(["other guards"] * (len(sides) - 2)), words[1]]
        return _difference(
            divergence,
            message,
            location or _compiled_line(divergence),
            groups_with(sides, parts),
            cure=cure,
        )

    # --- graphs

    def _graph_changes(self, divergence: Divergence) -> tuple[list[RankSide], list[GraphDifference]] | None:
        """The sides that differ, the largest last, and the first difference of each other one from it.

        None if the graphs turn out to be equal.
        """
        sides = [
            side for side in sides_of(divergence, lambda content: content.graphs) if side.compiled.graphs
        ]
        equal, changed = [sides[-1]], []
        for side in sides[:-1][:_MAX_PAIRS]:  # the others are in no group
            change = self._change(sides[-1].compiled, side.compiled)
            if change is None:
                equal.append(side)
            else:
                changed.append((side, change))
        if not changed:
            return None
        reference = RankSide(ranks_of(equal), sides[-1].compiled)
        return [*(side for side, _ in changed), reference], [change for _, change in changed]

    def _change(self, left: CompileDigest, right: CompileDigest) -> GraphDifference | None:
        hashes = zip(left.content.graphs, right.content.graphs, strict=False)
        for first, second, pair in zip(left.graphs, right.graphs, hashes, strict=False):
            if pair[0] == pair[1]:
                continue
            if pair not in self._graphs:
                guards = self._text(left.guards), self._text(right.guards)
                self._graphs[pair] = first_difference(
                    self._text(first),
                    self._text(second),
                    guards=guards,
                    lines=self._lines,
                    home=right.location,
                )
            if self._graphs[pair] is not None:
                return self._graphs[pair]
        return None

    @staticmethod
    def _of_graph(
        divergence: Divergence, sides: Sequence[RankSide], changes: Sequence[GraphDifference]
    ) -> RankDifference:
        worst = min((change.change for change in changes), key=list(GRAPH_KINDS).index)
        rows = [row for row in zip(sides, changes, strict=False) if row[1].change is worst]
        alike = [change for _, change in rows]
        first, reference = alike[0], sides[-1]
        related: tuple[tuple[Location, str], ...] = ()
        left_line, right_line = first.left_line, first.right_line
        if left_line is not None and right_line is not None and left_line != right_line:
            related = ((left_line, f"{others_in_words(reference.ranks)}: `{first.left}`"),)
        return _difference(
            replace(divergence, kind=GRAPH_KINDS[worst]),
            graph_words([side for side, _ in rows], alike, reference),
            first.right_line or first.left_line,
            groups_with(sides, [*(_behavior(change) for change in changes), first.left or "nothing here"]),
            is_exact=first.is_exact,
            related=related,
            cure=first.cure,
        )

    def _text(self, payload: Payload | None) -> str:
        if payload is None:
            return ""
        if payload not in self._texts:
            try:
                text = read_text(payload)
            except LogError:
                self.unread += 1
                text = ""
            if len(self._texts) >= _MAX_TEXTS:
                self._texts.clear()
            self._texts[payload] = text
        return self._texts[payload]


def _difference(
    divergence: Divergence,
    message: str,
    location: Location | None,
    groups: Sequence[RankGroup],
    *,
    is_exact: bool = True,
    related: tuple[tuple[Location, str], ...] = (),
    cause: GuardCause | None = None,
    cure: str = "",
) -> RankDifference:
    present = divergence.present
    if location is None or is_library(location.path):
        # Of a module of torch's, as `Sequential`, a graph can have no line of the user's.
        shown = [
            item for rank, item in sorted(present.items()) if rank in groups[0].ranks
        ] or present.values()
        caller = next((item.caller for item in shown if item.caller is not None), None)
        if caller is not None:
            related = related if location is None else ((location, "in the library: this line"), *related)
            location, is_exact = caller, True
    seconds = [item.seconds for item in present.values() if item.seconds is not None]
    least = 0.0 if divergence.absent else min(seconds, default=0.0)
    return RankDifference(
        kind=divergence.kind,
        message=message,
        location=location,
        is_exact=is_exact,
        function=next((item.name for item in present.values()), None),
        compile_ids=tuple(_id_of(present, group) for group in groups),
        groups=tuple(groups),
        seconds=max(seconds) - least if seconds else None,
        time=min((item.started for item in present.values() if item.started is not None), default=None),
        related=related,
        cause=cause,
        cure=cure,
    )


def _id_of(present: Mapping[int, CompileDigest], group: RankGroup) -> str:
    return next((present[rank].id for rank in group.ranks if rank in present), "")


def _later_kind(divergence: Divergence) -> DifferenceKind | None:
    """The kind of compiles whose graphs turned out to be equal."""
    return kind_without_graphs(compiled.content for compiled in divergence.present.values())


def _collective_sequence(item: RankDigest) -> list[_KeyedCompile]:
    """The compiles with collectives, in order: what identifies each, and the compile."""
    counts: collections.Counter[object] = collections.Counter()
    sequence: list[_KeyedCompile] = []
    for compiled in item.compiles:
        if compiled.content.collectives:
            unit = compiled.key, compiled.content.resumed_at
            sequence.append(((unit, counts[unit], compiled.content.collectives), compiled))
            counts[unit] += 1
    return sequence


def _name(compiled: CompileDigest) -> str:
    place = compiled.user_line
    if compiled.name is None and place is not None:
        return f"the module that {file_name(place.path)}:{place.line} calls"
    return f"`{compiled.key.function}`"


def _has_state(side: RankSide, state: AttemptState) -> bool:
    return side.compiled.content.state is state


def _error(side: RankSide) -> str:
    return short(side.compiled.error or "the compile raised an exception")


def _compiled_line(divergence: Divergence) -> Location | None:
    return next((item.location for item in divergence.present.values() if item.location is not None), None)


def _backward_words(side: RankSide) -> str:
    has_backward = side.compiled.content.has_backward
    return "compiled with a backward" if has_backward else "compiled without a backward"


def _behavior(change: GraphDifference) -> str:
    return change.right or f"no {change.left}"


def _user_frames(locations: Iterable[Location]) -> tuple[Location, ...]:
    return tuple(place for place in locations if not is_library(place.path))
