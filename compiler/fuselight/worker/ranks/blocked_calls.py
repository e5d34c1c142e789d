"""Receives that no send of a world can end: the ranks would wait for each other.

Invariant: a rank is blocked only if it is with every backend. Sends and asynchronous calls never wait here, nor do the
collectives of graphs. The nth receive from a source ends with its nth message, of those with its tag or of all: NCCL
has no tags. If a receive has any source, nothing is said.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fuselight.shared.report import BlockedRank, Collective, EqualRanks

_TO_ROOT = frozenset({"reduce", "gather"})
_FROM_ROOT = frozenset({"broadcast", "scatter"})
_Group = tuple[tuple[int, ...], str]
_Channel = tuple[int, int, str, "int | None"]
"""From a rank to another one in a group, with a tag; None: with any."""


def blocked_calls(ranks: Sequence[EqualRanks], size: int) -> tuple[BlockedRank, ...]:
    """The ranks that wait at the end, if one of them waits in a receive; of ranks that are not folded yet."""
    calls = {rank.ranks[0]: rank.collectives for rank in ranks}
    is_whole = (
        all(not rank.failures and rank.collective_count == len(rank.collectives) for rank in ranks)
        and len(calls) == size
    )
    kinds = {call.kind for sequence in calls.values() for call in sequence if not call.is_async}
    every = [call for sequence in calls.values() for call in sequence]
    if not is_whole or "recv" not in kinds or any(_is_open(call) for call in every):
        return ()
    world = _Simulation(calls)
    world.run()
    waiting = [
        BlockedRank(rank, calls[rank][at]) for rank, at in sorted(world.at.items()) if at < len(calls[rank])
    ]
    return tuple(waiting) if any(item.call.kind == "recv" for item in waiting) else ()


def _is_open(call: Collective) -> bool:
    """Whether the other rank is not known."""
    return call.kind in {"send", "recv"} and call.peer is None


@dataclass
class _Simulation:
    """The ranks at their calls."""

    calls: Mapping[int, Sequence[Collective]]
    at: dict[int, int] = field(default_factory=dict)
    """The number of the call that each rank is at."""
    sent: Counter[_Channel] = field(default_factory=Counter)
    """Messages in each channel."""
    received: Counter[_Channel] = field(default_factory=Counter)
    """Receives in each channel that have begun."""
    arrived: Counter[tuple[int, _Group]] = field(default_factory=Counter)
    """Collectives of a group that a rank has begun."""
    begun: dict[int, int] = field(default_factory=dict)
    """The number of the call that each rank has begun."""

    def run(self) -> None:
        """Have each rank go on as far as it can."""
        self.at = dict.fromkeys(self.calls, 0)
        moved = True
        while moved:
            moved = False
            for rank, calls in self.calls.items():
                while self.at[rank] < len(calls) and self._ends(rank, calls[self.at[rank]]):
                    self.at[rank] += 1
                    moved = True

    def _ends(self, rank: int, call: Collective) -> bool:
        """Whether a call of a rank ends, with what the others have done."""
        is_new = self.begun.get(rank) != self.at[rank]
        self.begun[rank] = self.at[rank]
        if call.kind == "send":
            self.sent.update(_channels(rank, call.peer or 0, call))
            return True
        if call.kind == "recv":
            channels = _channels(call.peer or 0, rank, call)
            if is_new:
                self.received.update(channels)
            return call.is_async or any(self.sent[item] >= self.received[item] for item in channels)
        group = call.group, call.group_name
        if is_new:
            self.arrived[rank, group] += 1
        if call.is_async or call.in_graph or call.source:
            return True
        return all(self.arrived[other, group] >= self.arrived[rank, group] for other in _awaited(rank, call))


def _channels(source: int, target: int, call: Collective) -> tuple[_Channel, _Channel]:
    return (source, target, call.group_name, call.tag), (source, target, call.group_name, None)


def _awaited(rank: int, call: Collective) -> Sequence[int]:
    """The ranks without which a call cannot end."""
    if call.kind in _TO_ROOT and rank != call.peer:
        return ()
    if call.kind in _FROM_ROOT:
        return () if rank == call.peer or call.peer is None else (call.peer,)
    return call.group
