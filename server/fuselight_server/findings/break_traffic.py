"""FL705: tensors that a graph break sends through memory, where one graph could have kept them in a kernel.

Invariant: each tensor is one that the report proves: written by a generated kernel at the end of one graph, read in the
same way by a generated kernel of the next, with a break between the two. The bytes are an upper bound and
say so; their time is an estimate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fuselight.devices import BANDWIDTH_REACHED
from fuselight_server.findings.context import span_of, trail
from fuselight_server.findings.text import compose
from fuselight_server.formatting import format_count, format_estimate, format_percent, format_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight.report import Break, Compile, Frame, GeneratedGraph, Handed, Location
    from fuselight_server.finding import Finding
    from fuselight_server.findings.context import Context

_HINTS = (
    "Remove the graph break: its own finding on this line says how",
    "Or move the line to a place where fewer tensors cross it, such as the end of the function",
)


def boundary_findings(context: Context) -> Iterator[Finding]:
    """A finding for each break between kernels that could be fused, above the threshold."""
    device, least = context.report.target_device, context.thresholds.kernel_share
    whole = context.estimated_us
    if device is None or not device.bandwidth_gbs or not whole or not least:
        return
    groups: dict[Location, tuple[Break, list[Handed]]] = {}
    for graph in context.report.generated:
        fusible = [one for one in graph.handed if one.fusible]
        broke = _between(context, graph, fusible[0].graph) if fusible else None
        home = context.innermost_user_frame(broke.stack, broke.above) if broke is not None else None
        if broke is not None and home is not None:
            groups.setdefault(home, (broke, []))[1].extend(fusible)
    for home, (broke, handed) in groups.items():
        us = sum(map(_moved, handed)) / (device.bandwidth_gbs * 1e3 * BANDWIDTH_REACHED)
        if us >= whole * least:
            yield _finding(context, home, broke, handed, us)


def _finding(context: Context, home: Location, broke: Break, handed: list[Handed], us: float) -> Finding:
    written, read = sum(one.bytes for one in handed if _spared(one)), sum(one.bytes for one in handed)
    tensors = format_count(len(handed), "tensor")
    moved = (
        f"{format_size(written)} written and {format_size(read)} read"
        if written
        else f"{format_size(read)} read"
    )
    on = context.report.target_device
    part = format_percent(us, context.estimated_us)
    name = on.name if on else "the device"
    cost = (
        f"up to {moved} more than in one graph, {format_estimate(us)} on {name} ({part} of the target's kernel time)",
    )
    goes = "goes" if len(handed) == 1 else "go"
    return context.finding(
        "FL705",
        title=f"this graph break prevents fusing the kernels before and after it: {tensors} {goes} through memory",
        message=compose(
            "The last kernel before the break writes what the first kernel after it reads, in the same order; in one "
            "graph Inductor may fuse the two. The bytes are an upper bound, because a tensor that the program returns "
            "or uses on this line is written anyway.",
            cost=cost,
            hints=_HINTS,
        ),
        span=span_of(home),
        hints=_HINTS,
        related=trail(broke.stack, without=home, verb="in"),
        count=len(handed),
        cost=cost,
        cost_us=us,
    )


def _spared(one: Handed) -> bool:
    """Whether only kernels that could be fused with the tensor's writer read it."""
    return not one.kept and one.fusible == one.read_by


def _moved(one: Handed) -> int:
    return one.bytes * (2 if _spared(one) else 1)


def _between(context: Context, graph: GeneratedGraph, earlier: int) -> Break | None:
    """The break between a graph and the one that ran before it; None where the report does not show it."""
    reader = _compile(context, graph.compile_id)
    before = next((one for one in context.report.generated if one.graph == earlier), None)
    writer = _compile(context, before.compile_id) if before is not None else None
    if reader is None or writer is None or reader.call != writer.call:
        return None
    frame = context.report.frames[reader.frame]
    if frame.resumes_at is not None:
        found = [one for one in context.report.breaks if _is_at(one, frame, frame.resumes_at)]
    else:  # a function that the one before it called, and could not take in
        found = [
            one
            for one in context.report.breaks
            if one.compile_id == writer.id and any(_is_in(at, frame) for at in one.stack[1:])
        ]
    return max(found, key=lambda one: len(one.stack), default=None)


def _compile(context: Context, compile_id: str) -> Compile | None:
    found = next((one for one in context.report.compiles if one.id == compile_id), None)
    return found if found is not None and found.frame < len(context.report.frames) else None


def _is_at(one: Break, frame: Frame, line: int) -> bool:
    """Whether a break is where the function of a frame resumes."""
    if not one.stack or one.frame_skipped:
        return False
    at = one.stack[0]
    return at.path == frame.location.path and at.line <= line <= (at.end_line or at.line)


def _is_in(at: Location, frame: Frame) -> bool:
    name = frame.function.rpartition(".")[2]
    return at.path == frame.location.path and (at.function or "").rpartition(".")[2] == name
