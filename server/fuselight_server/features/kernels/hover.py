"""The table of a line's kernels in its hover.

Invariant: equal launches are one row with a count; times are estimates of whole kernels. The line's part of them is
above the table.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from fuselight_server.features.bench.lens import standing, stands
from fuselight_server.features.kernels.lens import words
from fuselight_server.features.markdown import code_span, name_cell, plain
from fuselight_server.formatting import format_count, format_estimate, format_flops, format_size
from fuselight_server.kernels.summary import candidates

if TYPE_CHECKING:
    from fuselight.report import GeneratedGraph, Kernel
    from fuselight_server.results.kernels import KernelResult, KernelRow
    from fuselight_server.session.state import Snapshot

UNDECIDED = 3
"""Kernels of a line whose possible implementations a hover lists."""

LISTED = 20
"""Kernels of a line that a hover lists."""


def kernels(snapshot: Snapshot, line: int) -> list[str]:
    """Make the table of the kernels that have a part from `line`, one for each target."""
    found, measured = [], standing(snapshot)
    for key, result in snapshot.kernels.items():
        shown = result.shown
        if not stands(shown, measured):
            continue
        row = next((one for one in shown.rows(snapshot.path) if one.place.line == line), None)
        if row is not None:
            found.append(_table(key.name or "__main__", shown, row))
    return found


def _table(name: str, result: KernelResult, row: KernelRow) -> str:
    head = f"{code_span(name)}: {plain(words(result, [row]))}"
    folded: Counter[tuple[str, ...]] = Counter(_cells(graph, kernel) for graph, kernel in row.line.launches)
    # Names come last: they are long, and a hover cuts off what does not fit.
    lines = ["| count | estimate | bound | moves | phase | kind | kernel |", "|--:|--:|:--|--:|:--|:--|:--|"]
    for (*facts, kernel), count in list(folded.items())[:LISTED]:
        lines.append("| " + " | ".join([str(count), *facts, name_cell(kernel)]) + " |")
    more = len(folded) - LISTED
    parts = [head, "\n".join(lines)]
    if more > 0:
        parts.append(f"and {more} more")
    saved = result.saved_on(row)
    if saved is not None:
        tensors = "tensor" if saved.tensors == 1 else "tensors"
        parts.append(f"Autograd saves {format_size(saved.bytes)} in {saved.tensors} {tensors} for backward.")
    parts += _undecided(row)
    others = len(result.launches_on(row)) - len(row.line.launches)
    if others:
        parts.append(f"Recompiled graphs have {format_count(others, 'more kernel')} of this line.")
    parts.append(
        "*The times are estimates for one call; nothing was launched. "
        "A kernel that several lines share is listed with its whole time.*"
    )
    return "\n\n".join(parts)


def _undecided(row: KernelRow) -> list[str]:
    """List the line's kernels with several implementations, of which a GPU chooses the fastest."""
    found = dict.fromkeys(
        (kernel.name, kernel.candidates) for _, kernel in row.line.launches if kernel.candidates
    )
    return [
        f"A GPU decides {code_span(name)} between {len(tried)}: {plain(candidates(tried))}."
        for name, tried in list(found)[:UNDECIDED]
    ]


def _cells(graph: GeneratedGraph, kernel: Kernel) -> tuple[str, ...]:
    """Estimate, bound, bytes, phase, kind and name of one launch, fit for a table."""
    moved = (kernel.bytes_read or 0) + (kernel.bytes_written or 0)
    work = [format_size(moved)] if moved else []
    work += [format_flops(kernel.flops)] if kernel.flops else []
    work = [one.replace(" ", "\N{NO-BREAK SPACE}") for one in work]
    return (
        "" if kernel.estimate_us is None else plain(format_estimate(kernel.estimate_us)),
        kernel.bound or "",
        ", ".join(work),
        graph.phase.value,
        kernel.kind.value.replace("_", " "),
        kernel.name,
    )
