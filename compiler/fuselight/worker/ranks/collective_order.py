"""Whether the ranks of each process group call the same collectives in the same order.

Invariant: only ranks that ran are compared, and a rank that failed only up to its end. Sends and receives are left out:
the ranks of a pipeline differ in them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fuselight.shared.report import Collective, CollectiveMismatch, EqualRanks

_POINT_TO_POINT = frozenset({"send", "recv"})
_MAY_VARY = frozenset({"all_to_all"})
"""Kinds whose sizes differ between ranks in a correct program."""


def mismatches(ranks: Sequence[EqualRanks]) -> tuple[CollectiveMismatch, ...]:
    """The first mismatch in each process group, of ranks that are not folded yet."""
    groups = dict.fromkeys(
        (collective.group, collective.group_name)
        for rank in ranks
        for collective in rank.collectives
        if collective.kind not in _POINT_TO_POINT
    )
    candidates = (_first_mismatch(group, name, ranks) for group, name in groups)
    return tuple(mismatch for mismatch in candidates if mismatch is not None)


def _first_mismatch(
    group: tuple[int, ...], name: str, ranks: Sequence[EqualRanks]
) -> CollectiveMismatch | None:
    members = [rank for rank in ranks if rank.ranks[0] in group]
    sequences = [list(_calls(rank, group, name)) for rank in members]
    for index in range(max(map(len, sequences))):
        calls: dict[int, Collective | None] = {}
        for rank, sequence in zip(members, sequences, strict=True):
            if index < len(sequence):
                calls[rank.ranks[0]] = sequence[index]
            elif _is_complete(rank):
                calls[rank.ranks[0]] = None
        if len({signature(call) for call in calls.values()}) > 1:
            return CollectiveMismatch(group, index, tuple(calls), tuple(calls.values()))
    return None


def _calls(rank: EqualRanks, group: tuple[int, ...], name: str) -> Iterator[Collective]:
    return (
        call
        for call in rank.collectives
        if (call.group, call.group_name) == (group, name) and call.kind not in _POINT_TO_POINT
    )


def _is_complete(rank: EqualRanks) -> bool:
    """Whether a rank ran to its end, and all of its collectives were kept."""
    return not rank.failures and rank.collective_count == len(rank.collectives)


def signature(call: Collective | None) -> tuple[object, ...]:
    """Equal for calls that fit together."""
    if call is None:
        return ()
    return call.kind, call.dtype, 0 if call.kind in _MAY_VARY else call.bytes, call.peer, call.reduction
