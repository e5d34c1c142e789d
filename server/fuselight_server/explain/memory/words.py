"""An estimate of memory in words.

Invariant: every number is an estimate, and the line above them says so.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

from fuselight.shared.report import MemoryUse, StepPhase
from fuselight_server.base.formatting import format_size
from fuselight_server.explain.memory.fit import Fit, fit_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight.shared.report import Device, HeldMemory, Location, MemoryEstimate, MemoryPeak

USES = {
    MemoryUse.PARAMETER: "parameters",
    MemoryUse.BUFFER: "buffers",
    MemoryUse.INPUT: "inputs",
    MemoryUse.OUTPUT: "outputs",
    MemoryUse.SAVED: "saved for the backward",
    MemoryUse.GRADIENT: "gradients",
    MemoryUse.OPTIMIZER: "optimizer state",
    MemoryUse.TEMPORARY: "temporary",
    MemoryUse.INSIDE: "inside an operator",
    MemoryUse.LIBRARY: "workspace of cuBLAS",
}
NOTES = frozenset({"assumed_values", "unfollowed", "workspaces"})
"""Kinds of notes that say what an estimate does not know."""
_PHASES = {
    StepPhase.FORWARD: "in the forward",
    StepPhase.BACKWARD: "in the backward",
    StepPhase.OPTIMIZER: "in the step of the optimizer",
}


def shown_peak(estimate: MemoryEstimate) -> MemoryPeak | None:
    """The peak that is shown with its lines: of the compiled call, else of the eager one."""
    return estimate.compiled if estimate.compiled is not None else estimate.eager


def step_in_words(estimate: MemoryEstimate) -> str:
    """`a training step with adamw`, `a training step`, `inference`."""
    if not estimate.training:
        return "inference"
    return f"a training step with {estimate.optimizer}" if estimate.optimizer else "a training step"


def peak_in_words(peak: MemoryPeak, device: Device) -> str:
    """`3.9 GB, in the backward of model.py:16: fits in 80 GB`."""
    place = ""
    if peak.location is not None:
        place = f" of {PurePath(peak.location.path).name}:{peak.location.line}"
    return f"{format_size(peak.bytes)}, {_PHASES[peak.phase]}{place}{fit_in_words(peak, device)}"


def fit_in_words(peak: MemoryPeak, device: Device) -> str:
    """`: fits in 80 GB`; empty for a device whose memory is not known."""
    fit, whole = fit_of(peak.bytes, device), f"{device.memory_gb:,.0f} GB"
    words = {
        Fit.FITS: f": fits in {whole}",
        Fit.CLOSE: f": close to {whole}, and may not fit beside the driver and what the allocator reserves",
        Fit.DOES_NOT_FIT: f": does not fit in {whole}",
    }
    return words[fit] if fit is not None else ""


def difference_in_words(estimate: MemoryEstimate) -> str:
    """`compiled needs 64 MB more than eager mode`; empty without both."""
    if estimate.eager is None or estimate.compiled is None:
        return ""
    more = estimate.compiled.bytes - estimate.eager.bytes
    if not more:
        return "compiled needs as much as eager mode"
    return f"compiled needs {format_size(abs(more))} {'more' if more > 0 else 'less'} than eager mode"


def changed_lines(estimate: MemoryEstimate) -> Iterator[tuple[int, HeldMemory]]:
    """(bytes more than in eager mode, what is held) by use and line at the compiled peak, largest change first."""
    if estimate.eager is None or estimate.compiled is None:
        return iter(())
    before = {(row.use, _place(row.location)): row for row in estimate.eager.held}
    after = {(row.use, _place(row.location)): row for row in estimate.compiled.held}
    changes = [
        (
            (after[key].bytes if key in after else 0) - (before[key].bytes if key in before else 0),
            after.get(key) or before[key],
        )
        for key in {**before, **after}
    ]
    return iter(sorted((change for change in changes if change[0]), key=lambda change: -abs(change[0])))


def _place(location: Location | None) -> tuple[str, int] | None:
    return (location.path, location.line) if location is not None else None
