"""A program as each rank of a world that no network connects: its collectives, and what each rank compiled.

Invariant: results of collectives are not real there, so that values are never recorded: only which collectives run, in
which order, with which sizes.
"""

from __future__ import annotations

from dataclasses import dataclass

from fuselight.shared.report.capture import Break, Compile, Frame, NotCompiled, Recompile
from fuselight.shared.report.failure import Failure
from fuselight.shared.report.place import Stack


@dataclass(frozen=True)
class MeshDimension:
    """One dimension of a device mesh; the last one has neighboring ranks."""

    name: str
    size: int


@dataclass(frozen=True)
class WorldPlan:
    """How many ranks a program has, and as which of them it runs."""

    size: int
    mesh: tuple[MeshDimension, ...] = ()
    """Empty: one dimension with all ranks."""
    rank: int | None = None
    """The rank of this process; None for the run that runs the program as each rank."""
    most: int = 8
    """Most ranks to run."""


@dataclass(frozen=True)
class Collective:
    """One collective operation, as a rank called it."""

    kind: str
    """`all_reduce`, `all_gather`, `reduce_scatter`, `all_to_all`, `broadcast`, `reduce`, `gather`, `scatter`,
    `barrier`, `send`, `recv`."""
    group: tuple[int, ...]
    """The ranks of the process group, ascending."""
    dtype: str
    """Of the first tensor, as `float32`."""
    shapes: tuple[tuple[int, ...], ...]
    """Of the tensors that this rank passes in."""
    bytes: int
    """The whole buffer: all that is reduced, or gathered, or scattered."""
    stack: Stack = ()
    """User frames, outermost first: of the traced operator, if a graph calls it."""
    in_graph: bool = False
    """Whether a captured graph calls it; if not, eager code, such as a hook of FSDP2."""
    is_backward: bool = False
    source: str = ""
    """`fsdp` or `ddp`, whose hooks call it; empty for the program and its graphs."""
    is_async: bool = False
    """Whether the caller goes on before the result is there, as after `isend` and `irecv`; of a graph's, always False:
    Inductor schedules them."""
    peer: int | None = None
    """Of `send`, `recv` and what has a root: the other rank, or the root, as a rank of the world."""
    reduction: str = ""
    """`sum`, `max`, ...; empty if nothing is reduced, or if torch does not say how."""
    group_name: str = ""
    """As torch names the process group: two groups of the same ranks have two names."""
    tag: int = 0
    """Of `send` and `recv`."""


@dataclass(frozen=True)
class EqualRanks:
    """Ranks that compiled the same and called the same collectives, and what the first of them recorded."""

    ranks: tuple[int, ...]
    frames: tuple[Frame, ...] = ()
    compiles: tuple[Compile, ...] = ()
    breaks: tuple[Break, ...] = ()
    recompiles: tuple[Recompile, ...] = ()
    not_compiled: tuple[NotCompiled, ...] = ()
    failures: tuple[Failure, ...] = ()
    collectives: tuple[Collective, ...] = ()
    """In the order of the calls."""
    collective_count: int = 0
    """Of all; `collectives` has a bound."""


@dataclass(frozen=True)
class CollectiveMismatch:
    """The first call in which ranks of a process group differ: in a job they wait, or compute wrong results."""

    group: tuple[int, ...]
    index: int
    """Number of the call in the process group, from 0."""
    ranks: tuple[int, ...]
    """Those that ran and are known to have come this far."""
    calls: tuple[Collective | None, ...]
    """What each of `ranks` calls; None: nothing more in this process group."""


@dataclass(frozen=True)
class BlockedRank:
    """A rank that waits at a call when no rank of the world can go on."""

    rank: int
    call: Collective


@dataclass(frozen=True)
class World:
    """A program as several ranks, each in a process of its own, one after the other."""

    size: int
    mesh: tuple[MeshDimension, ...]
    groups: tuple[EqualRanks, ...]
    """The group of the first rank first; the Report itself has what that rank compiled."""
    seconds: dict[str, float]
    """Duration of each rank that ran, by its number."""
    mismatches: tuple[CollectiveMismatch, ...] = ()
    """Of each process group of which the ranks differ."""
    blocked: tuple[BlockedRank, ...] = ()
    """Where ranks wait for each other, if one of them waits in a receive: of a world of which all ranks ran."""

    @property
    def ran(self) -> tuple[int, ...]:
        """The ranks that ran."""
        return tuple(sorted(rank for group in self.groups for rank in group.ranks))
