"""An estimate of memory in words.

Invariant: every number is an estimate, and the line above them says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import NamedTuple

from fuselight.shared.report import (
    OF_GRAPH,
    Device,
    EditResults,
    HeldMemory,
    HolderGrowth,
    Location,
    MeasuredMemory,
    MemoryChange,
    MemoryEstimate,
    MemoryPeak,
    MemorySaving,
    MemoryUse,
    Report,
    SavingKind,
    StepPhase,
    TriedEdit,
)
from fuselight_server.base.formatting import format_change, format_count, format_estimate, format_size
from fuselight_server.base.rank_words import ranks_in_words
from fuselight_server.explain.memory.fit import Fit, fit_of

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
    MemoryUse.HELD: "held by a name",
    MemoryUse.OTHER: "other memory of before",
}
NOTES = frozenset({"assumed_values", "blocks", "unfollowed", "workspaces"})
"""Kinds of notes that say what an estimate does not know."""
PHASES = {
    StepPhase.FORWARD: "forward",
    StepPhase.BACKWARD: "backward",
    StepPhase.OPTIMIZER: "step of the optimizer",
}


def workspace_notes(report: Report) -> list[str]:
    """What estimates of memory lack, by a report of something else."""
    return [note.text for note in report.notes if note.kind == "workspaces"]


class FormEstimate(NamedTuple):
    """What is known of one form of a call."""

    name: str
    peak: MemoryPeak | None
    why_not: str
    least: int | None
    measured: MeasuredMemory | None


def forms_of(estimate: MemoryEstimate) -> list[FormEstimate]:
    """Eager mode, and compiled."""
    names = ("", "why_not_", "least_", "measured_")
    forms = ("eager", "compiled")
    return [FormEstimate(form, *(getattr(estimate, f"{name}{form}") for name in names)) for form in forms]


def peak_bytes(estimate: MemoryEstimate) -> int:
    """The bytes of the peak that is shown; -1 without one."""
    peak = shown_peak(estimate)
    return peak.bytes if peak is not None else -1


def shown_peak(estimate: MemoryEstimate) -> MemoryPeak | None:
    """The peak that is shown with its lines: of the compiled call, else of the eager one."""
    return estimate.compiled if estimate.compiled is not None else estimate.eager


def grouped_ranks(estimates: Sequence[MemoryEstimate]) -> Iterator[tuple[MemoryEstimate, str]]:
    """The estimates, of ranks that need the same the first one, with `, ranks 0-3`; empty without ranks."""
    groups: dict[MemoryEstimate, list[int]] = {}
    for estimate in estimates:
        ranks = groups.setdefault(replace(estimate, rank=None), [])
        if estimate.rank is not None:
            ranks.append(estimate.rank)
    yield from (
        (estimate, f", {ranks_in_words(ranks)}" if ranks else "") for estimate, ranks in groups.items()
    )


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
    from_few = f" (extrapolated from {peak.extrapolated})" if peak.extrapolated else ""
    return f"{peak_size(peak)}, in the {PHASES[peak.phase]}{place}{fit_in_words(peak, device)}{from_few}"


def peak_size(peak: MemoryPeak) -> str:
    """`3.9 GB`; `~3.9 GB` where it is extrapolated."""
    return f"{'~' if peak.extrapolated else ''}{format_size(peak.bytes)}"


def measured_in_words(peak: MemoryPeak | None, measured: MeasuredMemory) -> str:
    """`measured 3.9 GB: the estimate is 0.2% lower; reserved 4.2 GB, 310 MB of it not used at the peak`."""
    return f"measured {allocated_in_words(peak.bytes if peak is not None else None, measured)}"


def allocated_in_words(estimated: int | None, measured: MeasuredMemory) -> str:
    """`3.9 GB: the estimate is 0.2% lower; reserved 4.2 GB, 310 MB of it not used at the peak`."""
    text = format_size(measured.bytes)
    if estimated is not None and measured.bytes:
        text += f": the estimate is {_deviation(estimated / measured.bytes - 1)}"
    if measured.reserved is not None:
        unused = max(measured.reserved - measured.bytes, 0)
        text += (
            f"; reserved {format_size(measured.reserved)}, {format_size(unused)} of it not used at the peak"
        )
    if measured.between_tensors is not None:
        text += f"; {format_size(measured.between_tensors)} in pieces between tensors at the end"
    return text


_EXACT = 0.0005


def _deviation(part: float) -> str:
    if abs(part) < _EXACT:
        return "the same"
    return f"{format_change(abs(part)).lstrip('+')} {'higher' if part > 0 else 'lower'}"


def measured_rows(peak: MemoryPeak, measured: MeasuredMemory) -> list[tuple[HeldMemory, int, int]]:
    """Each use and line at the peak with its bytes estimated and measured, the largest first."""
    rows = {row_key(row): row for row in (*measured.held, *peak.held)}
    sizes = [{row_key(row): row.bytes for row in held} for held in (peak.held, measured.held)]
    known = [(row, sizes[0].get(key, 0), sizes[1].get(key, 0)) for key, row in rows.items()]
    return sorted(known, key=lambda item: -max(item[1:]))


def use_in_words(row: HeldMemory) -> str:
    """`saved for the backward`, `held by `self.last``, `held by the graph of `losses``."""
    name = row.holder.removeprefix(OF_GRAPH)
    graph = "the graph of " if name != row.holder else ""
    return f"held by {graph}`{name}`" if name else USES[row.use]


def growth_in_words(grown: HolderGrowth) -> str:
    """``losses` (list) in `train` holds 12.6 MB more after each call`."""
    scope = f" in `{grown.scope}`" if grown.scope else ""
    return f"`{grown.name}` ({grown.kind}){scope} holds {format_size(grown.bytes)} more after each call"


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
    before = {row_key(row): row for row in estimate.eager.held}
    after = {row_key(row): row for row in estimate.compiled.held}
    changes = [
        (
            (after[key].bytes if key in after else 0) - (before[key].bytes if key in before else 0),
            after.get(key) or before[key],
        )
        for key in {**before, **after}
    ]
    return iter(sorted((change for change in changes if change[0]), key=lambda change: -abs(change[0])))


def useful_savings(estimate: MemoryEstimate) -> list[MemorySaving]:
    """The changes that were tried, of modules only those that need less; the budget's first point is torch's own."""
    return [
        saving
        for saving in estimate.savings
        if saving.kind is SavingKind.BUDGET
        or any(after < before.bytes for _, before, after in _before_and_after(estimate, saving))
    ]


def saving_in_words(estimate: MemoryEstimate, saving: MemorySaving) -> str:
    """`compiled 4.6 GB -> 3.2 GB (-29%); 47 operators again, none of them a multiplication`."""
    known = _forms_in_words(estimate, saving) or f"not determined: {saving.why_not}"
    again = format_count(saving.recomputed, "operator") + " again"
    if saving.multiplications:
        again += (
            f", with {format_count(saving.multiplications, 'multiplication')}: {format_estimate(saving.us)}"
        )
    elif saving.recomputed:
        again += ", no multiplication"
    if saving.kind is SavingKind.SETTING:
        return known
    again += _rate_in_words(estimate, saving)
    better = _better_budget(estimate, saving)
    return f"{known}; {again}" + (f". No use: {better.name} needs no more" if better is not None else "")


def _forms_in_words(estimate: MemoryEstimate, tried: MemorySaving | TriedEdit) -> str:
    """`eager 4.6 GB -> 3.2 GB (-30%), compiled 4.4 GB -> 3.1 GB (-29%)`; empty if neither form is known."""
    return ", ".join(
        f"{form} {format_size(before.bytes)} -> {format_size(after)} ({format_change(after / before.bytes - 1)})"
        for form, before, after in _before_and_after(estimate, tried)
    )


_US_IN_MS = 1000.0


def _rate_in_words(estimate: MemoryEstimate, saving: MemorySaving) -> str:
    """`, 249 MB less per ms`: what a checkpoint takes off the peak for what it computes again."""
    pairs = list(_before_and_after(estimate, saving))
    if saving.kind is SavingKind.BUDGET or not saving.us or not pairs:
        return ""
    _, before, after = pairs[-1]
    less = (before.bytes - after) / saving.us * _US_IN_MS
    return f", {format_size(int(less))} less per ms" if less >= 1 else ""


def edit_in_words(estimate: MemoryEstimate, edit: TriedEdit) -> str:
    """`checkpoint `part(x)`: eager 472 MB -> 246 MB (-48%), compiled 472 MB -> 249 MB (-47%)`."""
    return f"{edit.title}: {_forms_in_words(estimate, edit)}"


_RESULTS = {EditResults.CHANGE: "results change: ", EditResults.UNKNOWN: "results not compared: "}


def edit_results(edit: TriedEdit) -> str:
    """`same results`, `results change: ...`, `results not compared: ...`."""
    return f"{_RESULTS.get(edit.results, '')}{edit.words}"


def edit_lines(edit: TriedEdit) -> list[str]:
    """The lines of its diff, without heads and context, if its results are the same: it is a fix then."""
    if edit.results is not EditResults.SAME:
        return []
    lines = edit.diff.splitlines()[2:]
    return [f"{line[0]} {line[1:].strip()}".rstrip() for line in lines if line[:1] in {"+", "-"}]


def _better_budget(estimate: MemoryEstimate, saving: MemorySaving) -> MemorySaving | None:
    """A higher budget, which computes less again, whose peak is not higher: what is saved falls, but not each peak."""
    if saving.kind is not SavingKind.BUDGET or saving.compiled is None:
        return None
    for other in estimate.savings:
        if other is saving:
            return None
        if (
            other.kind is SavingKind.BUDGET
            and other.compiled is not None
            and other.compiled <= saving.compiled
        ):
            return other
    return None


def saving_name(saving: MemorySaving) -> str:
    """`activation_memory_budget = 0.6`, `checkpoint Block (blocks.0, blocks.1)`, `..., which keeps products`."""
    if saving.kind is SavingKind.BUDGET:
        return f"activation_memory_budget = {saving.name}"
    if saving.kind is SavingKind.SELECTIVE:
        return f"checkpoint {saving.name}, which keeps products"
    if saving.kind is SavingKind.SETTING:
        return saving.name
    return f"checkpoint {saving.name}"


def _before_and_after(
    estimate: MemoryEstimate, tried: MemorySaving | TriedEdit
) -> Iterator[tuple[str, MemoryPeak, int]]:
    for form in forms_of(estimate):
        after = getattr(tried, form.name)
        if form.peak is not None and after is not None:
            yield form.name, form.peak, after


_WRITTEN = frozenset({MemoryUse.SAVED, MemoryUse.TEMPORARY})
_LESS = {
    MemoryChange.FUSED: "fused: no buffer is allocated for it",
    MemoryChange.DONATED: "written into the memory of a value that was saved",
    MemoryChange.REUSED: "written into memory that is not needed any more",
}


def cause_in_words(estimate: MemoryEstimate, more: int, row: HeldMemory) -> str:
    """What compiling does with a line that holds `more` bytes than in eager mode; empty if nothing of that is known."""
    at = _place(row.location)
    if at is None or estimate.eager is None or estimate.compiled is None:
        return ""
    known = {entry.change for entry in estimate.changes if _place(entry.location) == at}
    kept_by_eager, kept_by_compiled = (
        any(_place(kept.location) == at for kept in peak.saved)
        for peak in (estimate.eager, estimate.compiled)
    )
    is_saved, is_recomputed = row.use is MemoryUse.SAVED, MemoryChange.RECOMPUTED in known
    reasons = (
        (
            more > 0 and MemoryChange.PASSED in known and not kept_by_eager,
            "passed from one graph to the next, at a graph break or between compiled parts",
        ),
        (is_saved and more > 0 and not kept_by_eager, "saved by compiled code alone"),
        (is_saved and more > 0 and _is_gone(estimate.eager, row), "eager mode has freed it at its own peak"),
        (
            is_saved and more < 0 and is_recomputed and not kept_by_compiled,
            "computed again in the backward, and not saved",
        ),
        (
            is_saved and more < 0 and kept_by_compiled and _is_gone(estimate.compiled, row),
            "compiled code has freed it at its own peak",
        ),
        (
            row.use is MemoryUse.TEMPORARY and more > 0 and is_recomputed,
            "computed again in the backward, and allocated then",
        ),
        (more > 0 and MemoryChange.PADDED in known, "padded: its rows are longer, so that they are aligned"),
        *((more < 0 and row.use in _WRITTEN and change in known, words) for change, words in _LESS.items()),
    )
    return next((words for is_so, words in reasons if is_so), "")


def _is_gone(peak: MemoryPeak, row: HeldMemory) -> bool:
    """Whether nothing of a row is allocated at a peak."""
    at = _place(row.location)
    return all((held.use, _place(held.location)) != (row.use, at) for held in peak.held)


def row_key(row: HeldMemory) -> tuple[object, ...]:
    """What is the same for a row of another peak."""
    return row.use, _place(row.location), row.holder


def _place(location: Location | None) -> tuple[str, int] | None:
    return (location.path, location.line) if location is not None else None
