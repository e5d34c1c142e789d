"""Which lookup of an earlier start has the key that a miss should have had.

Invariant: a pair is the same cache, the same direction (forward or backward) and the same function, never the same
position: a hit writes its records in another order than a miss.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fuselight.shared.report import Location
from fuselight_server.jobs.caches.lookups import KEYED, Lookup, PayloadMemory, lookups_of
from fuselight_server.jobs.trace_log.model import CacheName, LoggedJob, ProcessLog

_FunctionKey = tuple["CacheName", "tuple[str, str] | None"]


@dataclass
class EarlierStart:
    """The lookups of an earlier start."""

    name: str
    processes: tuple[ProcessLog, ...]
    memory: PayloadMemory
    _by_key: dict[tuple[CacheName, str], Lookup] = field(default_factory=dict)
    _by_function: dict[_FunctionKey, list[Lookup]] = field(default_factory=lambda: defaultdict(list))

    def __post_init__(self) -> None:
        for process in self.processes:
            for lookup in lookups_of(process):
                if lookup.event.cache not in KEYED:
                    continue
                self._by_function[lookup.event.cache, lookup.names].append(lookup)
                if lookup.event.key:
                    self._by_key.setdefault((lookup.event.cache, lookup.event.key), lookup)

    def with_key(self, lookup: Lookup) -> Lookup | None:
        """The lookup of the same key."""
        return self._by_key.get((lookup.event.cache, lookup.event.key or ""))

    def pair_of(self, lookup: Lookup) -> Lookup | None:
        """The lookup that this one should have been equal to; None if the start did not compile the function.

        Raises LogError.
        """
        same = [
            other
            for other in self._by_function[lookup.event.cache, lookup.names]
            if self._has_direction_of(lookup, other)
        ]
        if lookup.names is None:
            same = [other for other in same if _same_id(lookup, other)]
        return min(
            same or self._of_renamed_file(lookup), key=lambda other: _distance(lookup, other), default=None
        )

    def _of_renamed_file(self, lookup: Lookup) -> list[Lookup]:
        """Lookups of a function of the same name with the same compile ID, in a file of another name."""
        return [
            other
            for (cache, names), others in self._by_function.items()
            if cache is lookup.event.cache and names is not None and lookup.names is not None
            if names[1] == lookup.names[1]
            for other in others
            if _same_id(lookup, other) and self._has_direction_of(lookup, other)
        ]

    def _has_direction_of(self, lookup: Lookup, other: Lookup) -> bool:
        directions = self.memory.is_backward(lookup.event), self.memory.is_backward(other.event)
        return None in directions or directions[0] == directions[1]


def _same_id(lookup: Lookup, other: Lookup) -> bool:
    return str(lookup.event.compile_id) == str(other.event.compile_id)


def _distance(lookup: Lookup, other: Lookup) -> tuple[bool, bool, bool, int]:
    """The same compile ID first, then the same line, the same number of recompilations, the nearest frame."""
    here, there = lookup.event.compile_id, other.event.compile_id
    if here is None or there is None:
        return True, True, True, 0
    return (
        not _same_id(lookup, other),
        _line(lookup) != _line(other),
        here.frame_compile != there.frame_compile,
        abs((here.frame or 0) - (there.frame or 0)),
    )


def _line(lookup: Lookup) -> tuple[int | None, int | None]:
    """First line of the function, and the line where a resume function goes on."""
    compiled = lookup.compile
    if compiled is None or compiled.location is None:
        return None, None
    return compiled.location.line, compiled.last.resumed_at


@dataclass
class EarlierJob:
    """The starts of an earlier job, by rank."""

    job: LoggedJob
    memory: PayloadMemory
    _starts: dict[int | None, EarlierStart] = field(default_factory=dict)

    def start_of(self, rank: int | None) -> EarlierStart:
        """The processes of a rank; all processes where the job has none of that rank."""
        known = rank if self.job.ranks.get(rank) else _ALL_RANKS
        if known not in self._starts:
            processes = self.job.ranks.get(rank) or tuple(self.job.processes)
            self._starts[known] = EarlierStart(self.job.name, _with_lookups(processes), self.memory)
        return self._starts[known]


_ALL_RANKS = -1


def start_to_compare(
    process: ProcessLog, job: LoggedJob, earlier: EarlierJob | None, memory: PayloadMemory
) -> EarlierStart | None:
    """The start whose keys explain the misses of a process: of the earlier job, else of the same job."""
    if earlier is not None:
        return earlier.start_of(process.rank)
    before = [
        other
        for other in job.ranks.get(process.rank, ())
        if other is not process and _is_before(other, process) and _shares_functions(other, process)
    ]
    if not before:
        return None
    latest = max(before, key=lambda other: other.started or 0.0)
    return EarlierStart(f"the earlier start in `{latest.file}`", (latest,), memory)


def earlier_start(job: LoggedJob, before: Sequence[LoggedJob]) -> LoggedJob | None:
    """The last of the jobs before it that compiled a function of the job, as before a restart; they ended earlier."""
    functions = _functions(job.processes)
    for other in reversed(before):
        has_ended = all(_is_before(process, next(iter(job.processes))) for process in other.processes)
        if has_ended and functions & _functions(other.processes):
            return other
    return None


def _functions(processes: Iterable[ProcessLog]) -> set[Location]:
    return {
        compiled.location
        for process in processes
        for compiled in process.compiles
        if compiled.location is not None
    }


def _with_lookups(processes: Iterable[ProcessLog]) -> tuple[ProcessLog, ...]:
    """The newest process first: of equal keys it is the better explanation."""
    return tuple(
        sorted(
            (process for process in processes if process.cache_events),
            key=lambda process: -(process.started or 0.0),
        )
    )


def _is_before(other: ProcessLog, process: ProcessLog) -> bool:
    return other.ended is not None and process.started is not None and other.ended <= process.started


def _shares_functions(other: ProcessLog, process: ProcessLog) -> bool:
    return bool(_functions([other]) & _functions([process]))
