"""The kernels of a line in a hover, estimated or measured, as tables in Markdown.

Invariant: every number comes from a report, and one from before an edit says so.
"""

from __future__ import annotations

from collections import Counter

from fuselight.shared.configurations import configuration_title
from fuselight.shared.report import GeneratedGraph, Kernel, MeasuredLaunch
from fuselight_server.base.formatting import (
    format_count,
    format_estimate,
    format_flops,
    format_percent,
    format_size,
    format_spread,
    format_target,
    format_time,
)
from fuselight_server.base.markdown import code_span, name_cell, plain
from fuselight_server.editor.results.benchmarks import MeasuredResult, MeasuredRow
from fuselight_server.editor.results.kernels import KernelResult, KernelRow
from fuselight_server.editor.results.lens_facts import (
    kernel_words,
    measured_words,
    shown_benchmarks,
    shows_estimates,
)
from fuselight_server.editor.results.snapshot import Snapshot
from fuselight_server.explain.benchmarks.profile import rates
from fuselight_server.explain.kernels.summary import candidates

LISTED = 20
"""Kernels of a line that a hover lists."""


_COLUMNS = (
    ("measured", "--:"),
    ("estimate", "--:"),
    ("of its limit", "--:"),
    ("count", "--:"),
    ("kind", ":--"),
    ("kernel", ":--"),
)
"""With how they are aligned; one without an entry is left out."""


def measured_tables(snapshot: Snapshot, line: int) -> list[str]:
    """Make the table of what was measured on `line`, one for each target."""
    return [
        _measured_table(result, row)
        for result in shown_benchmarks(snapshot)
        if (row := result.row(snapshot.path, line)) is not None
    ]


def _measured_table(result: MeasuredResult, row: MeasuredRow) -> str:
    name, configuration = format_target(result.key.name), result.configuration
    shown = f" ({plain(configuration_title(configuration.name))})" if configuration is not None else ""
    head = f"{code_span(name)}{shown}: {plain(measured_words(result, [row]))}"
    launches = sorted(row.line.launches, key=lambda item: -item[0].us)
    rows = [_measured_cells(result, launch, kernel) for launch, kernel in launches[:LISTED]]
    known = [index for index in range(len(_COLUMNS)) if any(cells[index] for cells in rows)]
    lines = [[row[index] for index in known] for row in (*zip(*_COLUMNS, strict=True), *rows)]
    parts = [head, "\n".join(f"| {' | '.join(cells)} |" for cells in lines)]
    if len(launches) > LISTED:
        parts.append(f"and {len(launches) - LISTED} more")
    source = (
        configuration.profile.source
        if configuration is not None and configuration.profile is not None
        else ""
    )
    by = f" by torch's profiler ({plain(source)})" if source else ""
    parts.append(
        f"*The times are of one call, measured{by}. A kernel that several lines share is listed with its whole time.*"
    )
    return "\n\n".join(parts)


def _measured_cells(result: MeasuredResult, launch: MeasuredLaunch, kernel: Kernel | None) -> list[str]:
    achieved = rates(launch, kernel, result.report.target_device)
    half = (launch.high_us - launch.low_us) / 2 / launch.us if launch.us > 0 else 0.0
    estimate = kernel.estimate_us if kernel is not None else None
    limit = f"{format_percent(achieved.of_limit)} ({achieved.bound})" if achieved.of_limit is not None else ""
    kind = kernel.kind.value.replace("_", " ") if kernel is not None else launch.kind.value
    name = kernel.name if kernel is not None else launch.name
    return [
        plain(f"{format_time(launch.us)} {format_spread(half)}"),
        "" if estimate is None else plain(format_estimate(estimate)),
        limit,
        f"{launch.count:g}",
        kind,
        name_cell(name),
    ]


UNDECIDED = 3
"""Kernels of a line whose possible implementations a hover lists."""


def kernel_tables(snapshot: Snapshot, line: int) -> list[str]:
    """Make the table of the kernels that have a part from `line`, one for each target."""
    measured, results = shown_benchmarks(snapshot), [kernel.shown for kernel in snapshot.kernels.values()]
    return [
        _kernel_table(result, row)
        for result in results
        if shows_estimates(result, measured) and (row := result.row(snapshot.path, line)) is not None
    ]


def _kernel_table(result: KernelResult, row: KernelRow) -> str:
    head = f"{code_span(format_target(result.key.name))}: {plain(kernel_words(result, [row]))}"
    folded: Counter[tuple[str, ...]] = Counter(
        _kernel_cells(graph, kernel) for graph, kernel in row.line.launches
    )
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
    undecided = dict.fromkeys(
        (kernel.name, kernel.candidates) for _, kernel in row.line.launches if kernel.candidates
    )
    return [
        f"A GPU decides {code_span(name)} between {len(tried)}: {plain(candidates(tried))}."
        for name, tried in list(undecided)[:UNDECIDED]
    ]


def _kernel_cells(graph: GeneratedGraph, kernel: Kernel) -> tuple[str, ...]:
    """Estimate, bound, bytes, phase, kind and name of one launch, fit for a table."""
    moved = (kernel.bytes_read or 0) + (kernel.bytes_written or 0)
    work = [format_size(moved)] if moved else []
    work += [format_flops(kernel.flops)] if kernel.flops else []
    work = [text.replace(" ", "\N{NO-BREAK SPACE}") for text in work]
    return (
        "" if kernel.estimate_us is None else plain(format_estimate(kernel.estimate_us)),
        kernel.bound or "",
        ", ".join(work),
        graph.phase.value,
        kernel.kind.value.replace("_", " "),
        kernel.name,
    )
