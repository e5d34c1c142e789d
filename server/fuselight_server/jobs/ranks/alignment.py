"""Which compiles of ranks belong together, and where they differ.

Invariant: compiles are paired by function and by how often it was compiled, never by ID, since one more compile shifts
all later IDs. That a rank has no further compile counts only if its log is known to go on to its end.
"""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fuselight_server.jobs.ranks.digests import CompileContent, CompileDigest, FunctionKey, RankDigest
from fuselight_server.jobs.ranks.model import DifferenceKind
from fuselight_server.jobs.trace_log.model import AttemptState

Unit = tuple["FunctionKey", "int | None"]
"""A function, or the part of it that goes on at a line after a graph break."""


OPEN_STATES = frozenset({AttemptState.UNFINISHED, AttemptState.FAILED})
"""Of compiles that may lack what a finished one has."""


@dataclass(frozen=True)
class Divergence:
    """Compiles that belong together and differ. None: the rank did not compile."""

    key: FunctionKey
    kind: DifferenceKind
    compiles: Mapping[int, CompileDigest | None]
    earlier: Mapping[int, CompileDigest]
    """The compile of the same function before, of each rank that has one."""
    position: int
    """Number of the first of them among the compiles of its rank."""

    @property
    def present(self) -> dict[int, CompileDigest]:
        """The compiles that there are."""
        return {rank: compiled for rank, compiled in self.compiles.items() if compiled is not None}

    @property
    def absent(self) -> list[int]:
        """Ranks without the compile."""
        return [rank for rank, compiled in self.compiles.items() if compiled is None]

    def follows_from(self, earlier: Divergence) -> bool:
        """Whether it can be a consequence of another one: then it is not reported.

        torch leaves the direct caller out of the stack, so that a break explains any further function of its ranks.
        """
        frame = earlier.key.path, earlier.key.function
        if any(frame in compiled.callers for compiled in self.present.values()):
            return True
        if earlier.kind is not DifferenceKind.GRAPH_BREAK:
            return False
        if any(
            (self.key.path, self.key.function) in compiled.broken for compiled in earlier.present.values()
        ):
            return True
        broken = {rank for rank, compiled in earlier.present.items() if compiled.breaks}
        return self.kind is DifferenceKind.COMPILE and broken.issuperset(self.present)


@dataclass(frozen=True)
class _Aligned:
    """The compiles of a unit: by rank, with their numbers among all compiles of the rank."""

    by_rank: Mapping[int, Sequence[tuple[int, CompileDigest]]]

    @property
    def longest(self) -> int:
        return max(map(len, self.by_rank.values()), default=0)


def compared(digest: RankDigest) -> Iterator[tuple[int, CompileDigest]]:
    """The compiles of a rank with their numbers; of calls past the recompile limit, the first of each function.

    torch logs a refused compile for each such call, so a rank that only makes more calls would seem to differ.
    """
    refused: set[Unit] = set()
    for position, compiled in enumerate(digest.compiles):
        if compiled.content.state is AttemptState.REFUSED:
            unit = compiled.key, compiled.content.resumed_at
            if unit in refused:
                continue
            refused.add(unit)
        yield position, compiled


def aligned_compiles(ranks: Mapping[int, RankDigest]) -> list[dict[int, CompileDigest]]:
    """Compiles that belong together, by rank, in the order in which the first rank has them."""
    compiles: dict[tuple[Unit, int], dict[int, CompileDigest]] = {}
    for rank, item in ranks.items():
        counts: collections.Counter[Unit] = collections.Counter()
        for _, compiled in compared(item):
            unit = compiled.key, compiled.content.resumed_at
            compiles.setdefault((unit, counts[unit]), {})[rank] = compiled
            counts[unit] += 1
    return list(compiles.values())


def divergences(
    ranks: Mapping[int, RankDigest], confirm: Callable[[Divergence], bool]
) -> Iterator[Divergence]:
    """The first divergence of each function that is none's consequence, in order. `confirm` looks at the texts."""
    candidates = []
    for units in _functions(ranks).values():
        first = [
            item
            for aligned in units
            for item in [_first_of_unit(aligned, ranks, confirm)]
            if item is not None
        ]
        if first:
            candidates.append(min(first, key=_order))
    accepted: list[Divergence] = []
    for candidate in sorted(candidates, key=_order):
        if not any(candidate.follows_from(earlier) for earlier in accepted if _spreads(earlier)):
            accepted.append(candidate)
            yield candidate


def _order(divergence: Divergence) -> tuple[bool, int, int]:
    """Those that change nothing but guards last."""
    return divergence.kind is DifferenceKind.GUARDS, divergence.position, len(divergence.absent)


def _spreads(divergence: Divergence) -> bool:
    """Whether it changes which other functions are compiled."""
    return divergence.kind not in {DifferenceKind.GUARDS, DifferenceKind.CONSTANT}


def _functions(ranks: Mapping[int, RankDigest]) -> dict[FunctionKey, list[_Aligned]]:
    units: dict[Unit, dict[int, list[tuple[int, CompileDigest]]]] = {}
    for rank, digest in ranks.items():
        for position, compiled in compared(digest):
            unit = compiled.key, compiled.content.resumed_at
            units.setdefault(unit, {}).setdefault(rank, []).append((position, compiled))
    functions: dict[FunctionKey, list[_Aligned]] = collections.defaultdict(list)
    for (key, _), by_rank in units.items():
        functions[key].append(_Aligned(by_rank))
    return functions


def _first_of_unit(
    aligned: _Aligned, ranks: Mapping[int, RankDigest], confirm: Callable[[Divergence], bool]
) -> Divergence | None:
    fallback = None
    for ordinal in range(aligned.longest):
        divergence = _at(aligned, ordinal, ranks)
        if divergence is None or not confirm(divergence):
            continue
        if divergence.kind is not DifferenceKind.GUARDS:
            return divergence
        fallback = fallback or divergence
    return fallback


def _at(aligned: _Aligned, ordinal: int, ranks: Mapping[int, RankDigest]) -> Divergence | None:
    compiles: dict[int, CompileDigest | None] = {}
    earlier: dict[int, CompileDigest] = {}
    positions = []
    for rank, digest in ranks.items():
        items = aligned.by_rank.get(rank, ())
        if ordinal < len(items):
            position, compiled = items[ordinal]
            compiles[rank] = compiled
            positions.append(position)
            if ordinal:
                earlier[rank] = items[ordinal - 1][1]
        elif not _may_go_on(digest):
            compiles[rank] = None
    kind = difference_kind({None if item is None else item.content for item in compiles.values()})
    if kind is None:
        return None
    key = next(item.key for item in compiles.values() if item is not None)
    return Divergence(key, kind, compiles, earlier, min(positions))


def _may_go_on(digest: RankDigest) -> bool:
    """Whether the rank may have compiled what its log lacks."""
    return digest.has_ended_early or bool(
        digest.compiles and digest.compiles[-1].content.state is AttemptState.FAILED
    )


def difference_kind(contents: Iterable[CompileContent | None]) -> DifferenceKind | None:
    """In what compiles differ first; None: in nothing that matters."""
    distinct = set(contents)
    if len(distinct) <= 1:
        return None
    present = [content for content in distinct if content is not None]
    if None in distinct:
        return _kind_of_presence(present)
    if len({content.reasons for content in present}) > 1:
        return DifferenceKind.RECOMPILATION
    if _break_sequences_differ(present):
        return DifferenceKind.GRAPH_BREAK
    if len({content.graphs for content in present if content.graphs}) > 1:
        return DifferenceKind.GRAPH
    return _kind_of_end(present) or _kind_of_guards(present)


def kind_without_graphs(contents: Iterable[CompileContent | None]) -> DifferenceKind | None:
    """The same for compiles whose graphs turned out to be equal."""
    present = [content for content in set(contents) if content is not None]
    return _kind_of_end(present) or _kind_of_guards(present)


def _kind_of_presence(present: Sequence[CompileContent]) -> DifferenceKind:
    if any(content.state is AttemptState.REFUSED for content in present):
        return DifferenceKind.RECOMPILE_LIMIT
    if any(content.reasons is not None for content in present):
        return DifferenceKind.RECOMPILATION
    return DifferenceKind.COMPILE


def _break_sequences_differ(present: Sequence[CompileContent]) -> bool:
    """An unfinished compile may have fewer breaks than the others."""
    longest = max((content.breaks for content in present), key=len)
    for content in present:
        is_open = content.state in OPEN_STATES
        if content.breaks != (longest[: len(content.breaks)] if is_open else longest):
            return True
    return False


def _kind_of_end(present: Sequence[CompileContent]) -> DifferenceKind | None:
    states = {content.state for content in present}
    if len(states) > 1:
        for state, kind in (
            (AttemptState.FAILED, DifferenceKind.FAILURE),
            (AttemptState.UNFINISHED, DifferenceKind.UNFINISHED),
            (AttemptState.REFUSED, DifferenceKind.RECOMPILE_LIMIT),
        ):
            if state in states:
                return kind
        return None
    if states == {AttemptState.FAILED} and len({content.error for content in present}) > 1:
        return DifferenceKind.FAILURE
    return None


def _kind_of_guards(present: Sequence[CompileContent]) -> DifferenceKind | None:
    for values in (
        {content.has_backward for content in present},
        {content.guards for content in present},
    ):
        if len(values - {None}) > 1:
            return DifferenceKind.GUARDS
    return None
