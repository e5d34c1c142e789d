"""A job as the comparison reads it, and what has the same name in both jobs.

Invariant: paths of the earlier job are those of the later one where both are of the same file.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from fuselight.shared.report import Location, Report, Stack
from fuselight_server.base.finding import Finding
from fuselight_server.jobs.reports.mapping import JobFiles, common_end
from fuselight_server.jobs.reports.moved_lines import last_name
from fuselight_server.jobs.trace_log.model import LoggedJob, ProcessLog

_GENERATED = re.compile(r"(?<=^<eval_with_key>)\.\d+$")


@dataclass(frozen=True)
class LoggedReport:
    """A process with its Report."""

    log: ProcessLog
    report: Report


@dataclass(frozen=True)
class ComparedSide:
    """One of the two jobs."""

    job: LoggedJob
    processes: tuple[LoggedReport, ...]
    """All of the job."""
    findings: tuple[Finding, ...]
    """Of all processes, each once."""
    files: JobFiles
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Path in this job → path in the other job, of files that are not in the source folders."""

    @cached_property
    def ranks(self) -> frozenset[int]:
        """The ranks that recorded logs."""
        return frozenset(rank for rank in self.job.ranks if rank is not None)

    @cached_property
    def shown_paths(self) -> frozenset[str]:
        """The paths of the job's files: local, or as in the job."""
        return frozenset(self.files.path(logged) for logged in self.files.evidence)

    def of_rank(self, rank: int | None) -> tuple[LoggedReport, ...]:
        """The processes of a rank that compiled something."""
        return tuple(item for item in self.processes if item.log.rank == rank and item.log.compiles)

    def common_path(self, path: str) -> str:
        """The path that both jobs use for a file; code that torch generates has none, and a number in each process."""
        if path.startswith("<"):
            return _GENERATED.sub("", path)
        return self.aliases.get(path, path)

    def common_location(self, location: Location) -> Location:
        """A location, with the path that both jobs use."""
        return replace(location, path=self.common_path(location.path))

    def quote(self, path: str, line: int) -> str | None:
        """The text of a line as it ran; None if the log does not quote it. `path` is one of this job."""
        text = self.files.quote(path, line)
        return " ".join(text.split()) if text else None

    def functions_of_lines(self) -> Mapping[tuple[str, int], str]:
        """Path and line → the function that the line is in, without its class, where the logs name it."""
        return functions_of_lines(process.report for process in self.processes)


def functions_of_lines(reports: Iterable[Report]) -> dict[tuple[str, int], str]:
    """Path and line → the function that the line is in, without its class, where the reports name it."""
    names: dict[tuple[str, int], str] = {}
    for report in reports:
        for location in _locations(report):
            if location.function:
                names.setdefault((location.path, location.line), last_name(location.function))
    return names


def compared_rank(side: ComparedSide, base: ComparedSide) -> tuple[int | None, int | None]:
    """The ranks whose compiles are compared: the lowest one in both jobs, else the lowest of each."""
    ours, theirs = (
        {item.log.rank for item in one_side.processes if item.log.compiles} for one_side in (side, base)
    )
    common = ours & theirs
    if common:
        rank = _lowest(common)
        return rank, rank
    return _lowest(ours), _lowest(theirs)


def _lowest(ranks: Iterable[int | None]) -> int | None:
    return min((rank for rank in ranks if rank is not None), default=None)


def common_paths(base: Iterable[str], paths: Iterable[str]) -> dict[str, str]:
    """Files of the earlier job → the files of the later one that have the longest common end with them."""
    theirs, ours = set(base), set(paths)
    by_name: dict[str, list[str]] = defaultdict(list)
    for path in sorted(ours - theirs):
        by_name[path.rpartition("/")[2]].append(path)
    aliases: dict[str, str] = {}
    for path in sorted(theirs - ours):
        near = _nearest(path, by_name[path.rpartition("/")[2]])
        if near is not None and near not in aliases.values():
            aliases[path] = near
    return aliases


def _nearest(path: str, candidates: Sequence[str]) -> str | None:
    """The candidate with the longest common end; None if two have it."""
    parts = path.split("/")
    ends = sorted((-common_end(parts, candidate.split("/")), candidate) for candidate in candidates)
    if len(ends) > 1 and ends[0][0] == ends[1][0]:
        return None
    return ends[0][1] if ends else None


def _locations(report: Report) -> Iterator[Location]:
    """The locations that a finding of a trace can have."""
    for stack in _stacks(report):
        yield from stack
    for frame in report.frames:
        yield frame.location
        if frame.resumes_at is not None:
            yield replace(frame.location, line=frame.resumes_at, function=frame.function)


def _stacks(report: Report) -> Iterator[Stack]:
    for graph_break in report.breaks:
        yield from (graph_break.stack, graph_break.above)
    for recompile in report.recompiles:
        yield recompile.caller
        yield from (failure.born for entry in recompile.entries for failure in entry.failures)
    for skipped in report.not_compiled:
        yield from (skipped.stack, skipped.caller)
    yield from (failed.stack for failed in report.failures)
    for compiled in report.compiles:
        yield compiled.caller
        yield from (symbol.stack for symbol in compiled.symbols)
