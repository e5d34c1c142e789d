"""The largest batch whose step fits into a device: extrapolated from two batches, and then tried.

Invariant: a batch that is named was estimated and fits, and the next one was estimated and does not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fuselight.shared.report import Device, MemoryEstimate, MemoryPeak, Report
from fuselight_server.explain.memory.fit import Fit, LargestBatch, fit_of, fitting_bytes

FORMS = ("eager", "compiled")
_MAX_ROUNDS = 6
_MAX_BATCH = 1 << 24
_FIRST = (1, 2, 16)
_STEP = 16
"""Where the peak does not depend on the batch yet, as with a step of the optimizer that is larger."""


async def find_largest(estimated: Callable[[tuple[int, ...]], Awaitable[Report]]) -> LargestBatch:
    """`estimated(batches)` returns a report with an estimate of each batch."""
    report = await estimated(_FIRST)
    device, known = report.target_device, _known(report)
    if device is None or report.failures:
        return LargestBatch()
    for _ in range(_MAX_ROUNDS):
        wanted = {batch for form in FORMS for batch in _next_batches(known[form], device)}
        if not wanted:
            break
        further = _known(await estimated(tuple(sorted(wanted))))
        for form in FORMS:
            known[form].update(further[form])
    return LargestBatch(*(_largest(known[form], device) for form in FORMS))


def _known(report: Report) -> dict[str, dict[int, int]]:
    """Bytes at the peak by form and batch."""
    peaks: dict[str, dict[int, int]] = {form: {} for form in FORMS}
    for estimate in report.memory:
        for form, peak in zip(FORMS, _peaks(estimate), strict=True):
            if peak is not None and estimate.batch is not None:
                peaks[form][estimate.batch] = peak.bytes
    return peaks


def _peaks(estimate: MemoryEstimate) -> tuple[MemoryPeak | None, MemoryPeak | None]:
    return estimate.eager, estimate.compiled


def _next_batches(known: dict[int, int], device: Device) -> list[int]:
    """What to try next: where lines through known batches cross the limit, and the batch after it; empty when done.

    The peak is the largest of several moments, each of which grows as a line. So a line through the last two batches
    that fit crosses the limit too late, and one through the last that fits and the first that does not too early.
    """
    limit = fitting_bytes(device)
    fitting = sorted(batch for batch, size in known.items() if size <= limit)
    larger = sorted(batch for batch, size in known.items() if size > limit)
    if not fitting or (larger and larger[0] == fitting[-1] + 1):
        return []
    low, high = fitting[-1], larger[0] if larger else _MAX_BATCH
    lines = [(fitting[-2], low)] if len(fitting) > 1 else []
    lines += [(low, high)] if larger else []
    batches = {
        crossing
        for start, end in lines
        if known[end] > known[start]
        for crossing in [start + int((limit - known[start]) * (end - start) / (known[end] - known[start]))]
    } or {_STEP * low}
    wanted = {min(max(batch, low), high - 1) for batch in batches}
    return sorted({*wanted, *(batch + 1 for batch in wanted)} - known.keys())


def _largest(known: dict[int, int], device: Device) -> int | None:
    """The largest batch that fits, if the next one was estimated and does not; 0 if 1 does not fit."""
    fits = {batch: fit_of(size, device) is Fit.FITS for batch, size in known.items()}
    if fits.get(1) is False:
        return 0
    return next(
        (batch for batch in sorted(fits, reverse=True) if fits[batch] and fits.get(batch + 1) is False), None
    )
