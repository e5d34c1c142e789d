"""The work of a request whose target runs in a world of ranks."""

from __future__ import annotations

import functools
from dataclasses import replace

from fuselight.shared.protocol import CaptureRequest, MeasureRequest, RunRequest, TuneRequest
from fuselight.shared.report import Culprit, Failure, WorldPlan
from fuselight.worker.child.state import RunState
from fuselight.worker.ranks.coordinator import run_ranks
from fuselight.worker.ranks.rank_run import Work, run_rank


def work_of_ranks(request: RunRequest, plan: WorldPlan, work: Work) -> tuple[Work, bool]:
    """Return the work, and whether its process forks others: a capture runs as several ranks, all else as the first."""
    if isinstance(request, (MeasureRequest, TuneRequest)):
        return _refuse, False
    if isinstance(request, CaptureRequest) and plan.rank is None:
        return functools.partial(run_ranks, plan=plan, work=work), True
    return functools.partial(run_rank, plan=replace(plan, rank=plan.rank or 0), work=work), False


def _refuse(state: RunState) -> None:
    state.failures.append(
        Failure(
            Culprit.USER,
            "world",
            "a rank without the others cannot be timed: its collectives do nothing",
            "start the job with its launcher, and time the program there",
        )
    )
