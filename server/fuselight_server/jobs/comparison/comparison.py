"""A job against an earlier one.

Invariant: compiles are compared for one rank of each job, findings for all ranks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from fuselight_server.base.formatting import format_list
from fuselight_server.jobs.caches.summary import summarize
from fuselight_server.jobs.comparison.caches import compare_caches
from fuselight_server.jobs.comparison.conditions import compare_conditions, compare_ranks, torch_versions
from fuselight_server.jobs.comparison.findings import compare_findings
from fuselight_server.jobs.comparison.functions import pair_functions
from fuselight_server.jobs.comparison.model import FunctionFacts, JobComparison, TimeChange
from fuselight_server.jobs.comparison.sides import ComparedSide, LoggedReport, common_paths, compared_rank
from fuselight_server.jobs.trace_log.model import AttemptState, LoggedJob

NOISE = "Compile times are of one run each: a difference below 10% or below 50 ms is noise."


def compare_jobs(after: ComparedSide, before: ComparedSide) -> JobComparison:
    """The later job, compared with the earlier one. Raises LogError where a log is gone."""
    before = replace(before, aliases=common_paths(before.shown_paths, after.shown_paths))
    rank, base_rank = compared_rank(after, before)
    ours, theirs = after.of_rank(rank), before.of_rank(base_rank)
    functions = pair_functions((after, ours), (before, theirs))
    job, base = _compared(after.job, rank), _compared(before.job, base_rank)
    summary = summarize(job, base)
    is_same_torch = torch_versions(ours) == torch_versions(theirs)
    return JobComparison(
        name=after.job.name,
        base=before.job.name,
        rank=rank,
        base_rank=base_rank,
        findings=compare_findings(after, before, is_same_torch=is_same_torch),
        functions=functions.changes,
        time=TimeChange(
            _total(change.before for change in functions.changes),
            _total(change.after for change in functions.changes),
        ),
        caches=compare_caches(summary, summarize(base), functions, is_same_torch=is_same_torch),
        conditions=(*compare_ranks(after, before), *compare_conditions(ours, theirs, summary)),
        notes=tuple(_notes(after, before, ours, theirs)),
    )


def _compared(job: LoggedJob, rank: int | None) -> LoggedJob:
    """The job with the processes of one rank alone."""
    return replace(job, ranks={rank: job.ranks[rank]})


def _total(facts: Iterable[FunctionFacts | None]) -> float | None:
    seconds = [item.seconds for item in facts if item is not None and item.seconds is not None]
    return sum(seconds) if seconds else None


def _notes(
    after: ComparedSide,
    before: ComparedSide,
    ours: Sequence[LoggedReport],
    theirs: Sequence[LoggedReport],
) -> Iterator[str]:
    if after.ranks or before.ranks:
        yield _rank_note(ours[0].log.rank, theirs[0].log.rank)
    releases = torch_versions(ours), torch_versions(theirs)
    if releases[0] != releases[1]:
        names = [format_list(names) or "an unknown release" for names in reversed(releases)]
        yield (
            f"The jobs ran with torch {names[0]} and {names[1]}: graphs, generated code and cache keys can differ for "
            "that reason alone."
        )
    if len(ours) != len(theirs):
        yield (
            f"{before.job.name} has {len(theirs):,} processes of this rank that compiled, {after.job.name} "
            f"{len(ours):,}: their compiles and times are added up."
        )
    for side, processes in ((after, ours), (before, theirs)):
        if any(map(_is_cut, processes)):
            yield f"The logs of {side.job.name} end inside a compile, so later compiles are missing."
    yield NOISE


def _rank_note(rank: int | None, base_rank: int | None) -> str:
    if rank == base_rank:
        return f"Compiles are those of {_rank(rank)}; findings are those of all ranks."
    return (
        f"No rank has logs in both jobs: compiles of {_rank(rank)} are compared with those of {_rank(base_rank)}. "
        "Findings are those of all ranks."
    )


def _rank(rank: int | None) -> str:
    return "the processes without a rank" if rank is None else f"rank {rank}"


def _is_cut(process: LoggedReport) -> bool:
    last = process.log.compiles[-1]
    return process.log.is_truncated or last.state is AttemptState.UNFINISHED
