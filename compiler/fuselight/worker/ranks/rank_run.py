"""The run of a target as one rank: its job, in a world that this process pretends to be a part of."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from fuselight.adapters.torch_api.distributed import fake_world
from fuselight.adapters.torch_api.distributed.objects import ObjectExchange
from fuselight.adapters.torch_api.dynamo.modes import listen_to_modes
from fuselight.capture.dynamo.modes import ModeLog
from fuselight.shared.protocol import CaptureRequest
from fuselight.shared.report import Culprit, Failure, Note, Report, WorldPlan
from fuselight.worker.child.request_results import RequestResult
from fuselight.worker.child.state import RunState
from fuselight.worker.ranks.collective_record import CollectiveRecord

RANK_FOLDER = "rank-"
"""Start of the name of a rank's folder, in the folder of the run of all ranks."""
Work = Callable[[RunState], None]


@dataclass
class RankResult(RequestResult):
    """The collectives of a rank."""

    record: CollectiveRecord

    def complete_report(self, report: Report) -> Report:
        """As in RequestResult."""
        return replace(report, collectives=tuple(self.record.collectives), collective_count=self.record.count)


def run_rank(state: RunState, plan: WorldPlan, work: Work) -> None:
    """Do `work` as the rank of the plan."""
    why_not = fake_world.unavailable()
    if why_not is not None:
        state.failures.append(
            Failure(
                Culprit.ENVIRONMENT, "world", why_not, "install a PyTorch that has it, or leave out the ranks"
            )
        )
        return
    rank = plan.rank or 0
    state.progress.label = f"rank {rank}"
    record = CollectiveRecord(state.job.request.roots)
    if isinstance(state.job.request, CaptureRequest):
        state.result = RankResult(record)
        state.node_runs = record.nodes
        state.recorder.modes = ModeLog()
    exchange = ObjectExchange(_shared_folder(state), rank)
    exchange.start()
    try:
        with fake_world.fake_world(rank, plan.size, record.record_call, exchange), _modes_of(state):
            if state.job.request.target.kind not in {"main", "call"}:
                fake_world.start(rank, plan.size)
            try:
                work(state)
            finally:
                with contextlib.suppress(Exception):  # the program may have taken it apart
                    fake_world.end()
    finally:
        if record.count:
            state.notes.append(_not_real())


def _modes_of(state: RunState) -> contextlib.AbstractContextManager[None]:
    log = state.recorder.modes
    return contextlib.nullcontext() if log is None else listen_to_modes(log)


def _shared_folder(state: RunState) -> Path:
    """Where the ranks of a run leave their objects: beside the folder of each; of a rank alone, in its own."""
    directory = Path(state.job.directory)
    return directory.parent if directory.name.startswith(RANK_FOLDER) else directory


def _not_real() -> Note:
    return Note(
        "world_values",
        "results of collectives are not real here: a branch on such a value may go another way in a job",
    )


def by_node(state: RunState, backend: Callable[..., Any]) -> Callable[..., Any]:
    """Return `backend`, whose graphs run node by node where the run records collectives."""

    def capture(gm: torch.fx.GraphModule, example_inputs: Any, **options: Any) -> Callable[..., Any]:
        if state.node_runs is not None:
            gm.forward = state.node_runs.run_by_node(gm)
        forward: Callable[..., Any] = backend(gm, example_inputs, **options)
        return forward

    capture.__name__ = getattr(backend, "__name__", "capture")
    return capture
