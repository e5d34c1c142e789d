"""Ranks of a divergence by what they did."""

from __future__ import annotations

import collections
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from fuselight_server.base.rank_words import ranks_in_words
from fuselight_server.jobs.ranks.alignment import Divergence
from fuselight_server.jobs.ranks.digests import CompileContent, CompileDigest
from fuselight_server.jobs.ranks.model import RankGroup

_LONGEST = 120


@dataclass(frozen=True)
class RankSide:
    """Ranks that compiled the same, and the compile of the first of them."""

    ranks: tuple[int, ...]
    compiled: CompileDigest


def sides_of(divergence: Divergence, part: Callable[[CompileContent], object]) -> list[RankSide]:
    """The ranks by a part of what they compiled, the smallest group first; of equal groups that of rank 0 is last."""
    present = divergence.present
    ranks: dict[object, list[int]] = collections.defaultdict(list)
    for rank, compiled in present.items():
        ranks[part(compiled.content)].append(rank)
    groups = sorted(ranks.values(), key=lambda group: (len(group), -min(group)))
    return [RankSide(tuple(sorted(group)), present[min(group)]) for group in groups]


def ranks_of(sides: Iterable[RankSide]) -> tuple[int, ...]:
    """All their ranks."""
    return tuple(sorted(rank for side in sides for rank in side.ranks))


def groups_with(sides: Sequence[RankSide], behaviors: Sequence[str]) -> tuple[RankGroup, ...]:
    """The sides as groups of the model."""
    return tuple(RankGroup(side.ranks, text) for side, text in zip(sides, behaviors, strict=False))


def others_in_words(ranks: Sequence[int]) -> str:
    """A single rank by its number; more are `the others`."""
    return ranks_in_words(ranks) if len(ranks) == 1 else "the others"


def short(text: str) -> str:
    """The first line of a text, cut."""
    line = " ".join(text.partition("\n")[0].split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
