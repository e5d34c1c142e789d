"""The memory that calls or training steps of the targets need on a device that may be absent.

Invariant: nothing of the size of a model is allocated; what the runs show is in `Report.memory`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fuselight.shared.protocol import MemoryRequest
from fuselight.shared.report import Device, Report, WorldPlan
from fuselight.shared.world_plan import ranks_to_run
from fuselight_server.base.cancellation import CancelToken
from fuselight_server.base.store import Store
from fuselight_server.commands.options import CommandOptions
from fuselight_server.commands.outcome import CheckOutcome
from fuselight_server.commands.targets import TargetRun, report_each
from fuselight_server.execution.runs.last_results import keep_result
from fuselight_server.explain.memory.fit import Fit, LargestBatch, fit_of
from fuselight_server.explain.memory.largest import find_largest

OPTIMIZERS = ("adamw", "adam", "sgd", "none")
SAVINGS_SECONDS = 90.0


@dataclass(frozen=True)
class MemoryPlan:
    """What is estimated."""

    device: Device | None = None
    """None: this machine's GPU, else the catalogue's FALLBACK."""
    training: bool | None = None
    """None: as the directive of the target says."""
    optimizer: str = OPTIMIZERS[0]
    batches: tuple[int, ...] = ()
    """First sizes of the inputs, in place of the directive's; empty for that one."""
    finds_largest: bool = False
    """Whether the largest batch that fits is searched."""
    tries_savings: bool = False
    """Whether changes are tried that would need less."""
    savings_seconds: float = SAVINGS_SECONDS
    """How long they may be tried: settings and modules for one half, changes of the source for the other."""
    measures: bool = False
    """Whether each step also runs on the device of the target's tensors: the estimate is for that one."""
    is_exact: bool = False
    """Whether all of many equal blocks are compiled, as they are for changes that would need less."""


@dataclass
class MemoryOutcome:
    """The targets with their estimates, and the largest batch of each, by path and name."""

    check: CheckOutcome
    largest: dict[tuple[str, str], LargestBatch]

    def largest_of(self, report: Report) -> LargestBatch | None:
        """What was searched of a target."""
        return self.largest.get((report.target.path, report.target.name))


async def estimate_memory(
    options: CommandOptions, show: Callable[[str], None], token: CancelToken, *, plan: MemoryPlan
) -> MemoryOutcome:
    """Estimate every target, one after the other in one worker. Raises asyncio.CancelledError once canceled."""
    largest: dict[tuple[str, str], LargestBatch] = {}

    async def report_of(target_run: TargetRun, outcome: CheckOutcome) -> Report:
        target = _TargetMemory(target_run, plan, outcome)
        report = await target.report()
        if plan.finds_largest and not report.failures:
            key = report.target.path, report.target.name
            largest[key] = await find_largest(target.estimated)
        return report

    return MemoryOutcome(await report_each(options, show, token, report_of), largest)


@dataclass
class _TargetMemory:
    """The estimates of one target: of each rank if it runs in a world, and with what was measured if that is wanted."""

    run: TargetRun
    plan: MemoryPlan
    outcome: CheckOutcome
    """Of the command so far: it has the texts of files."""
    device: Device | None = None
    """What was measured on, once it is known."""

    async def report(self) -> Report:
        """The report of the plan."""
        world = self.run.request.world
        if world is not None and world.rank is None:
            reports = [await self._of_rank(replace(world, rank=rank)) for rank in ranks_to_run(world)]
            return merged_ranks(reports)
        if not self.plan.measures:
            return await self._with_savings()
        measured = await self.run.run_report(self._request(measures=True))
        if measured.failures or not measured.memory:
            return measured
        self.device = measured.target_device
        return with_measured(await self._with_savings(), measured)

    async def _with_savings(self) -> Report:
        """The report with an estimate of each batch, and with what would need less if that is wanted."""
        report = await self.run.run_report(self._request(savings=self.plan.tries_savings))
        if not self.plan.tries_savings:
            return report
        from fuselight_server.commands.memory_edits import with_edits  # noqa: PLC0415 - with LibCST

        request = self._request()
        report = await with_edits(self.run, self.outcome, report, request, self.plan.savings_seconds / 2)
        if not self.plan.batches and not request.overlays and request.world is None:
            _keep(report)
        return report

    async def estimated(self, batches: tuple[int, ...]) -> Report:
        """The report with an estimate of each batch."""
        return await self.run.run_report(self._request(batches=batches))

    async def _of_rank(self, world: WorldPlan) -> Report:
        request = replace(self._request(savings=self.plan.tries_savings), world=world)
        report = await self.run.run_report(request)
        return replace(report, memory=tuple(replace(estimate, rank=world.rank) for estimate in report.memory))

    def _request(self, **options: Any) -> MemoryRequest:
        return self.run.request.of_kind(
            MemoryRequest,
            device=self.device if self.device is not None else self.plan.device,
            training=self.plan.training,
            optimizer=self.plan.optimizer,
            exact=self.plan.is_exact or self.plan.tries_savings,
            savings_seconds=self.plan.savings_seconds / 2,
            **{"batches": self.plan.batches, **options},
        )


def _keep(report: Report) -> None:
    """Keep an estimate with edits for the editor, which shows it while no file has changed."""
    if any(estimate.edits for estimate in report.memory):
        with contextlib.suppress(OSError):  # a folder that cannot be written
            keep_result(Store.of(Path(report.target.path)), report)


def merged_ranks(reports: Sequence[Report]) -> Report:
    """The first report, with the estimates, failures and notes of all ranks."""
    failures = dict.fromkeys(failure for report in reports for failure in report.failures)
    notes = dict.fromkeys(note for report in reports for note in report.notes)
    estimates = (estimate for report in reports for estimate in report.memory)
    return replace(reports[0], memory=tuple(estimates), failures=tuple(failures), notes=tuple(notes))


def with_measured(report: Report, measured: Report) -> Report:
    """The estimates of a report with what the same calls needed on the device."""
    estimates = tuple(
        replace(
            estimate,
            measured_eager=run.measured_eager,
            measured_compiled=run.measured_compiled,
            why_not_measured=run.why_not_measured,
        )
        for estimate, run in zip(report.memory, measured.memory, strict=False)
    )
    return replace(report, memory=estimates + report.memory[len(estimates) :])


def exit_code(outcome: CheckOutcome) -> int:
    """0: every target was estimated, and none is too large; 1: one does not fit; 2: one was not estimated."""
    estimates = [estimate for report in outcome.reports for estimate in report.memory]
    is_missing = any(
        report.failures or not report.memory or report.target_device is None for report in outcome.reports
    )
    has_gap = any(estimate.eager is None or estimate.compiled is None for estimate in estimates)
    if outcome.problems or not outcome.reports or is_missing or has_gap:
        return 2
    return int(any(_is_too_large(report) for report in outcome.reports))


def _is_too_large(report: Report) -> bool:
    """Whether a call fits neither in eager mode nor compiled."""
    device = report.target_device
    return device is not None and any(
        all(
            peak is not None and fit_of(peak.bytes, device) is Fit.DOES_NOT_FIT
            for peak in (estimate.eager, estimate.compiled)
        )
        for estimate in report.memory
    )
