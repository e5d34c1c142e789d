"""What a comparison of the ranks of a job yields, as data.

Invariant: times are seconds; a fact that the logs do not have is None. Paths and lines are the job's. No text claims
that a rank waited, except those of `CollectiveWait`, which come from torch's flight recorder.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from fuselight.shared.report import GuardCause, Location
from fuselight_server.base.rank_words import ranks_in_words


class DifferenceKind(Enum):
    """In what ranks differ."""

    GRAPH = "graph"
    """Other operators in the graph of the same compile."""
    CONSTANT = "constant"
    """The same operators with another number: a value such as the rank is part of the graph."""
    COLLECTIVES = "collectives"
    """Other collectives, or another order of them, in the graph of the same compile."""
    SHAPES = "shapes"
    """The same operators on inputs of another shape or dtype."""
    GRAPH_BREAK = "graph_break"
    RECOMPILATION = "recompilation"
    """Only some ranks compiled again, or for another reason."""
    COMPILE = "compile"
    """Only some ranks compiled a function."""
    GUARDS = "guards"
    """The same graph under other guards."""
    RECOMPILE_LIMIT = "recompile_limit"
    FAILURE = "failure"
    UNFINISHED = "unfinished"
    """A compile had not ended when the log of some ranks ended."""
    CACHE = "cache"
    """Only some ranks found the compiled graph in a cache, and the others took longer."""


@dataclass(frozen=True, slots=True)
class RankGroup:
    """Ranks that behaved equally."""

    ranks: tuple[int, ...]
    behavior: str = ""
    """What they did at the place in question: `compiled again: x.size(1) was 640, now 8`."""

    @property
    def label(self) -> str:
        """`ranks 0-2, 4, 6-7`."""
        return ranks_in_words(self.ranks)


@dataclass(frozen=True, slots=True)
class RankDifference:
    """A place where ranks differ."""

    kind: DifferenceKind
    message: str
    """One line: `ranks 3 and 5 compiled again here: x.size(1) was 640, now 8 (the others did not)`."""
    location: Location | None
    """The user's line; None if the logs name no line."""
    is_exact: bool
    """False: the line is the nearest that the logs name, as torch attributes collectives to its own source."""
    function: str | None
    """The compiled function."""
    compile_ids: tuple[str, ...]
    """IDs of the compile in torch's notation, one for each group; empty text for a group without it."""
    groups: tuple[RankGroup, ...]
    """The ranks by what they did, the fewest ranks first."""
    seconds: float | None
    """Compile time that the ranks with the most spent on it over those with the least."""
    time: float | None
    """When it began, since the epoch."""
    related: tuple[tuple[Location, str], ...] = ()
    """Further lines with words: where other ranks do something else."""
    cause: GuardCause | None = None
    """Of a recompilation: what changed; None: it is not known."""
    cure: str = ""
    """What helps, where the kind alone does not decide it."""


@dataclass(frozen=True, slots=True)
class RankCompile:
    """A compile in a row of the table."""

    id: str
    function: str | None
    location: Location | None
    started: float | None
    seconds: float | None


@dataclass(frozen=True, slots=True)
class RankRow:
    """What a rank did, in numbers."""

    rank: int
    files: tuple[str, ...]
    """Its logs."""
    compiles: int
    recompilations: int
    graphs: int
    graph_breaks: int
    cache_hits: int
    cache_misses: int
    cache_bypasses: int
    seconds: float | None
    """Compile time; None if no compile recorded it."""
    slowest: RankCompile | None
    unfinished: tuple[RankCompile, ...]
    """The compile that had not ended when the log ended."""
    failed: tuple[RankCompile, ...]
    refused: int
    """Calls that were not compiled because of the recompile limit."""
    started: float | None
    ended: float | None
    """Times of the first and of the last record."""
    is_truncated: bool
    group: int
    """Index in `RankTable.groups`."""


@dataclass(frozen=True, slots=True)
class CompileSkew:
    """A compile that ranks began at different times."""

    function: str | None
    """None for the one that torch wraps around a library's module."""
    location: Location | None
    """Of a library's function, the user's line that led to it."""
    compile_id: str
    late: tuple[int, ...]
    """The ranks that began it last."""
    seconds: float
    """By how much, after the median of the ranks."""
    message: str
    """`rank 3 began this compile 4.1 s after the others`."""


@dataclass(frozen=True, slots=True)
class TimelineSpan:
    """A phase of a rank. Times count from the start of the timeline."""

    name: str
    """`forward` of compile 0/0 is the compiled function's name; inside it, the phases of torch."""
    start: float
    end: float | None
    """None: the log ends before it."""
    depth: int
    """0: a whole compile."""
    compile_id: str | None


@dataclass(frozen=True, slots=True)
class TimelineLane:
    """The phases of a rank, by start."""

    rank: int
    spans: tuple[TimelineSpan, ...]
    log_start: float | None
    log_end: float | None
    is_cut: bool = False
    """Whether the rank has more phases than are kept."""


@dataclass(frozen=True, slots=True)
class RankTimeline:
    """All ranks over one clock: that of each machine. Clocks of machines can differ."""

    start: float
    """Seconds since the epoch."""
    seconds: float
    lanes: tuple[TimelineLane, ...]


@dataclass(frozen=True, slots=True)
class CollectiveWait:
    """The collective in which a rank was when torch's flight recorder was written."""

    ranks: tuple[int, ...]
    collective: str
    """`all_reduce`."""
    sequence: int | None
    """Number of the collective in its process group; None of a call that the recorder does not have."""
    group: str
    """Name of the process group."""
    location: Location | None
    """The user's line; None if the dump has no stack."""
    message: str
    """`ranks 0 and 2-3 wait in all_reduce (number 57 of group 0), which rank 1 has not started`."""
    related: tuple[tuple[Location, str], ...] = ()
    """Where the ranks are that have not started it, if their dumps have it."""


@dataclass(frozen=True, slots=True)
class RankTable:
    """The ranks of a job, compared."""

    world_size: int | None
    """As the logs record it; None if none does."""
    rows: tuple[RankRow, ...]
    """By rank."""
    missing: tuple[int, ...]
    """Ranks without a log: below the highest, or below the world size."""
    unranked: int
    """Processes that recorded no rank: they are not compared."""
    groups: tuple[RankGroup, ...]
    """Ranks with equal compiles, the largest group first."""
    differences: tuple[RankDifference, ...]
    """In order of time: the others can follow from the first."""
    skews: tuple[CompileSkew, ...]
    """The largest first."""
    timeline: RankTimeline | None
    waits: tuple[CollectiveWait, ...] = ()
    notes: tuple[str, ...] = ()
    """What could not be compared, and why."""

    @property
    def first(self) -> RankDifference | None:
        """The first difference."""
        return self.differences[0] if self.differences else None
