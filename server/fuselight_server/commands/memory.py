"""The memory that calls or training steps of the targets need on a device that may be absent.

Invariant: nothing of the size of a model is allocated; what the runs show is in `Report.memory`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuselight.shared.protocol import MemoryRequest
from fuselight_server.commands.targets import report_each
from fuselight_server.explain.memory.fit import Fit, fit_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from fuselight.shared.report import Device, Report
    from fuselight_server.base.cancellation import CancelToken
    from fuselight_server.commands.options import CommandOptions
    from fuselight_server.commands.outcome import CheckOutcome
    from fuselight_server.commands.targets import TargetRun

OPTIMIZERS = ("adamw", "adam", "sgd", "none")


@dataclass(frozen=True)
class MemoryPlan:
    """What is estimated."""

    device: Device | None = None
    """None: this machine's GPU, else the catalogue's FALLBACK."""
    training: bool | None = None
    """None: as the directive of the target says."""
    optimizer: str = OPTIMIZERS[0]


async def estimate_memory(
    options: CommandOptions, show: Callable[[str], None], token: CancelToken, *, plan: MemoryPlan
) -> CheckOutcome:
    """Estimate every target, one after the other in one worker. Raises asyncio.CancelledError once canceled."""

    async def report_of(target_run: TargetRun, _outcome: CheckOutcome) -> Report:
        request = target_run.request.of_kind(
            MemoryRequest, device=plan.device, training=plan.training, optimizer=plan.optimizer
        )
        return await target_run.run_report(request)

    return await report_each(options, show, token, report_of)


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
