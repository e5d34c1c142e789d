"""An estimate of memory as nodes of the report's tree: each call, its peaks, what is allocated then, what is kept.

Invariant: the rows of a peak add up to it; each place is where the line is now.
"""

from __future__ import annotations

from dataclasses import dataclass

from fuselight.shared.report import HeldMemory, MemoryEstimate, MemoryPeak, TriedEdit
from fuselight_server.base.formatting import format_count, format_size
from fuselight_server.editor.messages.answers import ReportNode
from fuselight_server.editor.presenters import convert
from fuselight_server.editor.presenters.tree_nodes import NodeMaker
from fuselight_server.editor.results.memory import MemoryResult
from fuselight_server.editor.results.memory_words import edit_words, memory_summary
from fuselight_server.explain.memory.words import (
    NOTES,
    changed_lines,
    difference_in_words,
    forms_of,
    peak_in_words,
    step_in_words,
    use_in_words,
)
from fuselight_server.source.positions import span


@dataclass(frozen=True)
class _MemoryMaker(NodeMaker):
    """Makes the nodes of one estimate."""

    result: MemoryResult


def memory_node(result: MemoryResult, view: convert.Client) -> ReportNode:
    """Make the node of a target's memory."""
    make = _MemoryMaker(view, result.shown)
    report = make.result.report
    children = [
        *make.listed("estimatedCall", [_call(make, estimate) for estimate in report.memory]),
        *(make.node("note", note.text, "info") for note in report.notes if note.kind in NOTES),
        *make.group("lost", "Not available", "question", make.problems(report)),
    ]
    return make.node("memory", "Memory", "database", description=memory_summary(result), children=children)


def _call(make: _MemoryMaker, estimate: MemoryEstimate) -> ReportNode:
    changes = [_changed(make, more, row) for more, row in changed_lines(estimate)]
    children = [
        *(_peak(make, form.name.title(), form.peak, form.why_not) for form in reversed(forms_of(estimate))),
        *make.group("changedMemory", "Compiled against eager mode, by line", "diff", changes),
        *make.group(
            "memoryEdit",
            "Changes of the source that need less",
            "lightbulb",
            [_edit(make, estimate, edit) for edit in estimate.edits],
        ),
    ]
    description = ": ".join(filter(None, [step_in_words(estimate), difference_in_words(estimate)]))
    return make.node(
        "estimatedCall", estimate.call, "symbol-method", description=description, children=children
    )


def _peak(make: _MemoryMaker, form: str, peak: MemoryPeak | None, why_not: str) -> ReportNode:
    if peak is None:
        return make.node("peak", form, "question", description=f"not estimated: {why_not}")
    device = make.result.report.target_device
    words = peak_in_words(peak, device) if device is not None else format_size(peak.bytes)
    kept = [_row(make, row) for row in peak.saved]
    size = format_size(sum(row.bytes for row in peak.saved))
    children = [
        *make.listed("heldMemory", [_row(make, row) for row in peak.held]),
        *make.group("savedMemory", f"Saved for the backward, {size}", "save", kept),
    ]
    return make.node("peak", form, "graph", description=words, children=children)


def _row(make: _MemoryMaker, row: HeldMemory) -> ReportNode:
    where = make.result.now(row)
    description = f"{use_in_words(row)}, {format_count(row.tensors, 'tensor')}"
    return make.node(
        "heldMemory", format_size(row.bytes), "circle-small", description=description, where=where
    )


def _edit(make: _MemoryMaker, estimate: MemoryEstimate, edit: TriedEdit) -> ReportNode:
    there = make.result.places.track(span(edit.location))
    where = None if there.is_deleted else there.span
    words = edit_words(estimate, edit).removeprefix(f"{edit.title}: ")
    return make.node("memoryEdit", edit.title, "lightbulb", description=words, where=where)


def _changed(make: _MemoryMaker, more: int, row: HeldMemory) -> ReportNode:
    label = f"{'+' if more > 0 else '-'}{format_size(abs(more))}"
    return make.node(
        "changedMemory", label, "diff", description=use_in_words(row), where=make.result.now(row)
    )
