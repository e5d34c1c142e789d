"""The cost of each line: every kernel, and every tensor saved for backward, by the lines that its operators come from.

A fused kernel has operators of several lines, and nobody can say which of its bytes belongs to which: each operator
gets the same part. Invariant: parts are exact fractions, so that the sum over lines equals the sum over kernels. Each
storage that is saved counts once, at the first tensor that shares it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import Generic, TypeVar

from fuselight.shared.report import GeneratedGraph, Kernel, Report, Stack, innermost_user_frame
from fuselight_server.base.finding import SourceLine

T = TypeVar("T")


@dataclass
class LinePart(Generic[T]):
    """The part of one line in kernels; `place` is None for what has no line."""

    place: SourceLine | None
    launches: list[T] = field(default_factory=list)
    """The launches that it has a part in."""
    us: Fraction = Fraction(0)
    """Its part of their time, microseconds."""
    fused_with: set[SourceLine] = field(default_factory=set)
    """Other lines that have operators in the same kernels."""


@dataclass
class LineCost(LinePart["tuple[GeneratedGraph, Kernel]"]):
    """What one line is estimated to cost."""

    bytes: Fraction = Fraction(0)
    """Read and written, the line's part."""
    flops: Fraction = Fraction(0)


def costs_by_line(report: Report) -> tuple[LineCost, ...]:
    """The cost of every line with a part in a kernel, the most expensive first."""
    costs: dict[SourceLine | None, LineCost] = {}
    for graph in report.generated:
        for kernel in graph.kernels:
            parts = shares(kernel, report.roots)
            for place, part in parts.items():
                cost = costs.setdefault(place, LineCost(place))
                cost.launches.append((graph, kernel))
                cost.bytes += part * ((kernel.bytes_read or 0) + (kernel.bytes_written or 0))
                cost.flops += part * (kernel.flops or 0)
                cost.us += part * Fraction(kernel.estimate_us or 0)
                cost.fused_with.update(other for other in parts if other is not None and other != place)
    return tuple(
        sorted(costs.values(), key=lambda cost: (-cost.us, -cost.bytes, cost.place or SourceLine("", 0)))
    )


def shares(kernel: Kernel, roots: Sequence[str]) -> dict[SourceLine | None, Fraction]:
    """The part of each line in a kernel; the parts of a kernel are 1 in sum. None: operators without a line."""
    places = Counter(place_of(operator.stack, roots) for operator in kernel.operators)
    if None in places and len(places) > 1:
        del places[None]  # made by the compiler for the sake of the others, as a cast
    total = sum(places.values())
    if not total:
        return {None: Fraction(1)}
    return {place: Fraction(count, total) for place, count in places.items()}


def place_of(stack: Stack, roots: Sequence[str]) -> SourceLine | None:
    """The line that an operator belongs to: the innermost one in the workspace, else the innermost one at all."""
    frame = innermost_user_frame(stack, roots) or (stack[-1] if stack else None)
    return None if frame is None else SourceLine(frame.path, frame.line)


ACTIVATION = "activation"
"""`SavedTensor.kind` of what is kept for the backward graph alone."""


@dataclass
class Kept:
    """Of one line."""

    tensors: int = 0
    bytes: int = 0


def kept_by_line(report: Report) -> dict[SourceLine | None, Kept]:
    """Activations that are kept, by line; None: those without one."""
    kept_lines: dict[SourceLine | None, Kept] = {}
    for graph in report.generated:
        for tensor in graph.saved:
            if tensor.kind == ACTIVATION:
                kept = kept_lines.setdefault(place_of(tensor.stack, report.roots), Kept())
                kept.tensors += 1
                kept.bytes += tensor.bytes
    return kept_lines


def places_of(kernel: Kernel, roots: Sequence[str]) -> tuple[SourceLine, ...]:
    """The lines with a part in a kernel, in order."""
    return tuple(sorted(place for place in shares(kernel, roots) if place is not None))


@dataclass(frozen=True)
class Folded:
    """One kernel and how often a graph launches it for the same lines."""

    kernel: Kernel
    count: int
    places: tuple[SourceLine, ...]

    @property
    def us(self) -> float | None:
        """Of all its launches, microseconds: an estimate."""
        return None if self.kernel.estimate_us is None else self.kernel.estimate_us * self.count


def fold(graph: GeneratedGraph, roots: Sequence[str]) -> tuple[Folded, ...]:
    """The kernels of a graph, equal launches folded."""
    folded_kernels: dict[tuple[object, ...], Folded] = {}
    for kernel in graph.kernels:
        places = places_of(kernel, roots)
        key = (
            kernel.text_key or kernel.name, kernel.kind, kernel.bytes_read, kernel.bytes_written, kernel.flops, places,
        )  # fmt: skip
        known = folded_kernels.get(key, Folded(kernel, 0, places))
        folded_kernels[key] = replace(known, count=known.count + 1)
    return tuple(folded_kernels.values())
