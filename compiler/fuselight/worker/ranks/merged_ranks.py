"""One report of all ranks: that of the first rank, and of each group of equal ranks what differs.

Invariant: two ranks are in one group only if they compiled the same graphs on the same lines in the same modes, broke,
recompiled and failed alike, and called the same collectives. Durations and the constants of a graph are not compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fuselight.shared.report import (
    Collective,
    EqualRanks,
    Failure,
    Note,
    Problem,
    Reads,
    Report,
    Stack,
    World,
    WorldPlan,
    innermost_user_frame,
    is_pythons_own,
)
from fuselight.shared.world_plan import without_addresses
from fuselight.worker.child.request_results import RequestResult
from fuselight.worker.ranks.blocked_calls import blocked_calls
from fuselight.worker.ranks.collective_order import mismatches


@dataclass(frozen=True)
class RankRun:
    """The run of one rank."""

    rank: int
    report: Report | None
    """None if its process ended before it recorded anything."""
    failure: Failure | None
    """What ended its process early."""
    seconds: float


@dataclass
class MergedRanks(RequestResult):
    """The ranks that have ended so far."""

    plan: WorldPlan
    roots: Sequence[str]
    runs: list[RankRun] = field(default_factory=list)
    imported: list[str] = field(default_factory=list)

    def add_rank(self, run: RankRun) -> None:
        """Add a rank that has ended."""
        self.runs.append(run)

    @property
    def libraries(self) -> Iterable[str]:
        """As in RequestResult."""
        return self.imported

    def complete_report(self, report: Report) -> Report:
        """As in RequestResult: the report of the first rank, with all that this process knows besides."""
        ended = sorted(self.runs, key=lambda run: run.rank)
        runs = [run for run in ended if run.report is not None]
        ranks = [_ranks_of(run) for run in ended]
        world = World(
            self.plan.size,
            self.plan.mesh,
            _folded(ranks, self.roots),
            {str(run.rank): round(run.seconds, 3) for run in ended},
            mismatches(ranks),
            blocked_calls(ranks, self.plan.size),
        )
        lost = tuple(run.failure for run in self.runs if run.report is None and run.failure is not None)
        if not runs or runs[0].report is None:
            return replace(report, world=world, failures=(*report.failures, *lost[:1]))
        first = runs[0]
        reports = [run.report for run in runs if run.report is not None]
        own = (first.failure,) if first.failure is not None else ()
        texts = {key: text for part in reversed(reports) for key, text in part.texts.items()}
        return replace(
            reports[0],
            world=world,
            collectives=(),
            failures=(*reports[0].failures, *own, *report.failures),
            notes=tuple(dict.fromkeys(note for part in (*reports, report) for note in _notes(part))),
            problems=_problems(reports, report),
            texts=texts,
            files={path: key for part in reversed(reports) for path, key in part.files.items()},
        )

    def final(self, report: Report) -> Report:
        """As in RequestResult: the facts and the forecasts are those of the first rank, the reads those of all."""
        reports = [
            run.report for run in sorted(self.runs, key=lambda run: run.rank) if run.report is not None
        ]
        if not reports:
            return report
        reads = _reads(reports) if report.reads is not None else None
        return replace(
            report, facts=reports[0].facts, forecasts=reports[0].forecasts, reads=_merged(reads, report.reads)
        )


def _notes(report: Report) -> Iterable[Note]:
    """Every rank runs on the CPU, whatever device the program names."""
    return (note for note in report.notes if note.kind != "device_redirected")


def _problems(reports: Sequence[Report], own: Report) -> tuple[Problem, ...]:
    return tuple(dict.fromkeys(problem for part in (*reports, own) for problem in part.problems))


def _folded(ranks: Sequence[EqualRanks], roots: Sequence[str]) -> tuple[EqualRanks, ...]:
    """Fold equal ranks."""
    groups: dict[Any, EqualRanks] = {}
    for rank in ranks:
        key = _key(rank, roots)
        known = groups.get(key)
        groups[key] = rank if known is None else replace(known, ranks=(*known.ranks, *rank.ranks))
    return tuple(groups.values())


def _ranks_of(run: RankRun) -> EqualRanks:
    """What one rank recorded."""
    failures = (run.failure,) if run.failure is not None else ()
    report = run.report
    if report is None:
        return EqualRanks((run.rank,), failures=failures)
    return EqualRanks(
        (run.rank,),
        report.frames,
        report.compiles,
        report.breaks,
        report.recompiles,
        report.not_compiled,
        (*report.failures, *failures),
        report.collectives,
        report.collective_count,
    )


def _key(group: EqualRanks, roots: Sequence[str]) -> tuple[Any, ...]:
    """Equal for ranks of one group."""
    return (
        tuple(
            (
                (group.frames[item.frame].function, group.frames[item.frame].location.line, item.outcome),
                item.graph
                and (
                    item.graph.targets,
                    without_addresses(item.graph.inputs),
                    _lines(item.graph.lines, roots),
                ),
                tuple((mode.name, mode.value) for mode in item.modes),
            )
            for item in group.compiles
        ),
        tuple((item.types, _line(item.stack, roots)) for item in group.breaks),
        tuple((item.function, item.location) for item in group.recompiles),
        tuple(
            (item.kind, item.function, item.location)
            for item in group.not_compiled
            if not is_pythons_own(item.location.path)
        ),
        tuple((item.kind, item.message, _line(item.stack, roots)) for item in group.failures),
        tuple(_collective_key(item, group.ranks[0], roots) for item in group.collectives),
        group.collective_count,
    )


def _collective_key(collective: Collective, rank: int, roots: Sequence[str]) -> tuple[Any, ...]:
    """Equal for ranks of parallel process groups that call the same collective."""
    peer = collective.peer
    if peer is not None and collective.kind in {"send", "recv"}:
        peer -= rank
    elif peer is not None:
        peer = collective.group.index(peer)
    return (
        collective.kind,
        len(collective.group),
        collective.dtype,
        collective.shapes,
        collective.bytes,
        peer,
        collective.reduction,
        _line(collective.stack, roots),
    )


def _lines(stacks: Iterable[Stack], roots: Sequence[str]) -> tuple[Any, ...]:
    return tuple(_line(stack, roots) for stack in stacks)


def _line(stack: Stack, roots: Sequence[str]) -> tuple[str, int] | None:
    place = innermost_user_frame(stack, roots)
    return None if place is None else (place.path, place.line)


def _reads(reports: Sequence[Report]) -> Reads | None:
    """What any of the ranks read."""
    merged: Reads | None = None
    for report in reports:
        merged = _merged(merged, report.reads)
    return merged


def _merged(first: Reads | None, second: Reads | None) -> Reads | None:
    if first is None or second is None:
        return first or second
    return Reads(
        {**second.files, **first.files},
        {**second.folders, **first.folders},
        tuple(dict.fromkeys((*first.import_folders, *second.import_folders))),
        {**second.asked, **first.asked},
        tuple(dict.fromkeys((*first.others, *second.others))),
    )
