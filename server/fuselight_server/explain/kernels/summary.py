"""How many kernels one call of a target launches, and how long they take.

Invariant: compiles of the same frame are versions of each other, and no single call runs two of them. The first
version stands for a call; kernels of the others are counted apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fuselight.shared.report import Assembled, Report
from fuselight_server.base.formatting import (
    format_count,
    format_estimate,
    format_first,
    format_percent,
    format_size,
)

_MAX_CANDIDATES = 6


def one_call(report: Report) -> Report:
    """Return the report with the graphs of one call only: of each frame the version that was compiled first."""
    first: dict[str, int] = {}
    for graph in report.generated:
        frame, version = _version(graph.compile_id)
        first[frame] = min(first.get(frame, version), version)
    kept = tuple(
        graph for graph in report.generated if first[(id_ := _version(graph.compile_id))[0]] == id_[1]
    )
    return report if len(kept) == len(report.generated) else replace(report, generated=kept)


def _version(compile_id: str) -> tuple[str, int]:
    """Split `2/1` or `2/1_1` (a second attempt) into frame and version."""
    frame, _, version = compile_id.rpartition("/")
    number = version.partition("_")[0]
    return frame, int(number) if number.isdecimal() else 0


def target_summary(report: Report) -> str:
    """`24 kernels, ~228 µs on h200`, followed by the kernels of other compiles."""
    kernels = [kernel for graph in one_call(report).generated for kernel in graph.kernels]
    others = sum(len(graph.kernels) for graph in report.generated) - len(kernels)
    us = sum(kernel.estimate_us or 0.0 for kernel in kernels)
    device = report.target_device.key if report.target_device else report.device
    text = format_count(len(kernels), "kernel") + (f", {format_estimate(us)}" if us else "") + f" on {device}"
    return text + (f", {others:,} more in recompiles" if others else "")


def target_details(report: Report, kept_bytes: int) -> str:
    """`target_summary`, the memory that autograd keeps, and the graphs without kernels."""
    text = target_summary(report)
    if kept_bytes:
        text += f", saves {format_size(kept_bytes)} for backward"
    lost = sum(graph.failure is not None for graph in report.generated)
    return text + (f", {format_count(lost, 'graph')} without kernels" if lost else "")


def resources(assembled: Assembled) -> str:
    """`32 registers, no spills, 4 KB shared memory, 75% of the warps (limited by registers)`."""
    if assembled.failure is not None:
        return f"not compiled: {assembled.failure}"
    facts = []
    if assembled.registers is not None:
        facts.append(f"{assembled.registers} registers")
    if assembled.spills is not None:
        facts.append(f"spills {format_size(assembled.spills)} a thread" if assembled.spills else "no spills")
    if assembled.shared:
        facts.append(f"{format_size(assembled.shared)} shared memory")
    filled = assembled.occupancy
    if filled is not None and filled.most:
        limit = "" if filled.warps == filled.most else f" (limited by {filled.limited_by})"
        facts.append(f"{format_percent(filled.warps, filled.most)} of the warps{limit}")
    return ", ".join(facts)


def candidates(names: Sequence[str]) -> str:
    """`one, another and 19 more`: what a GPU would time against each other."""
    return format_first(names, _MAX_CANDIDATES)
