"""An estimate of memory, in a lens, in one line and at the end of a line.

Invariant: the number of the compiled form comes first, and each number says which form it is of.
"""

from __future__ import annotations

from fuselight.shared.report import Device, MemoryEstimate, TriedEdit
from fuselight_server.base.formatting import format_percent, format_size
from fuselight_server.editor.results.lens_facts import DETAILS, Info, age, caveats, end_in_words
from fuselight_server.editor.results.memory import LineMemory, MemoryResult
from fuselight_server.editor.results.target_result import STILL_RUNNING
from fuselight_server.explain.benchmarks.words import failed
from fuselight_server.explain.findings.failures import short_end
from fuselight_server.explain.memory.fit import Fit, fit_of
from fuselight_server.explain.memory.words import (
    edit_in_words,
    edit_results,
    forms_of,
    peak_in_words,
    peak_size,
    shown_peak,
    step_in_words,
)


def memory_info(result: MemoryResult, *, is_running: bool) -> Info:
    """Say the verdict: `peak 31.2 GB of 80 (compiled), 42 (eager)`, `memory: not estimated: ...`."""
    shown = result.shown
    state = STILL_RUNNING if is_running and result.unfinished else result.unfinished or age(shown)
    tooltip = memory_summary(result)
    estimate, device = shown.largest, shown.report.target_device
    if estimate is None or not shown.has_data:
        return Info(f"memory: {_no_estimate(result)}", "", DETAILS, tooltip=tooltip)
    later = "" if shown is result or result.unfinished else ", failed later"
    return Info(f"{_verdict(estimate, device)}{later}", state, DETAILS, tooltip=tooltip)


def memory_summary(result: MemoryResult) -> str:
    """Say all in one line: both peaks with their moments, whether that is current, how a later run ended."""
    shown = result.shown
    estimate, device = shown.largest, shown.report.target_device
    if estimate is None or not shown.has_data or device is None:
        return f"not estimated: {_no_estimate(result, is_whole=True)}"
    parts = [
        f"{form} {peak_in_words(peak, device)}" if peak is not None else f"{form} not estimated: {why_not}"
        for form, peak, why_not, _, _ in reversed(forms_of(estimate))
    ]
    end = end_in_words(result.report.failures, is_shown=shown is result)
    return f"{step_in_words(estimate)} on {device.name}: {'; '.join(parts)}{caveats(shown)}{end}"


def _no_estimate(result: MemoryResult, *, is_whole: bool = False) -> str:
    failures = result.report.failures
    if failures:
        return failed(failures[0]) if is_whole else short_end(failures[0])
    estimate = result.report.memory[0] if result.report.memory else None
    why = (estimate.why_not_compiled or estimate.why_not_eager) if estimate is not None else ""
    return (why if is_whole else f"not estimated: {why}") if why else "nothing was estimated"


def _verdict(estimate: MemoryEstimate, device: Device | None) -> str:
    peak = shown_peak(estimate)
    if peak is None:
        return "memory: not estimated"
    fit = fit_of(peak.bytes, device) if device is not None else None
    size, whole = peak_size(peak), f"{device.memory_gb:,.0f}" if device is not None else ""
    form = "compiled" if estimate.compiled is not None else "eager"
    text = {
        Fit.FITS: f"peak {size} of {whole if size.endswith(' GB') else f'{whole} GB'} ({form})",
        Fit.CLOSE: f"close to {whole} GB: {size} ({form})",
        Fit.DOES_NOT_FIT: f"does not fit in {whole} GB: {size} ({form})",
        None: f"peak {size} ({form})",
    }[fit]
    if estimate.compiled is None:
        return f"{text}, compiled not estimated"
    if estimate.eager is None:
        return f"{text}, eager not estimated"
    other = format_size(estimate.eager.bytes)
    number, unit = other.split(" ")
    return f"{text}, {number if size.endswith(f' {unit}') else other} (eager)"


def line_hint(line: LineMemory) -> str:
    """`saves 738 MB`."""
    return f"saves {format_size(line.saved)}"


def line_words(line: LineMemory, result: MemoryResult) -> str:
    """Say what a line keeps: how much of all that is, eager mode beside it, and what it holds at the peak."""
    whole = result.saved_bytes
    text = f"Keeps {format_size(line.saved)} for the backward, {format_percent(line.saved, whole)} of what is kept"
    if line.eager is not None and line.eager != line.saved:
        text += f"; {format_size(line.eager)} in eager mode" if line.eager else "; nothing in eager mode"
    text += f". At the peak it holds {format_size(line.at_peak)}." if line.at_peak else ". Free at the peak."
    device = result.report.target_device
    on = f" on {device.name}" if device is not None else ""
    text += f" Estimated{on}{caveats(result)}."
    for estimate, edit in result.edits(line.place.path):
        if edit.location.line == line.place.line:
            text += f" Needs less with a change of this line: {edit_words(estimate, edit)}."
    return text


def edit_words(estimate: MemoryEstimate, edit: TriedEdit) -> str:
    """`checkpoint `part(x)`: eager 4.6 GB -> 3.2 GB (-30%), compiled 4.4 GB -> 3.1 GB (-29%); same results`."""
    return f"{edit_in_words(estimate, edit)}; {edit_results(edit)}"
