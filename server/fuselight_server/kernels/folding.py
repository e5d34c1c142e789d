"""Equal launches told once: the twelve layers of a model launch the same kernels twelve times.

Invariant: what is folded has the same source (or library kernel), phase, sizes and lines; order is that of the first.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuselight_server.kernels.shares import SourceLine, shares

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fuselight.report import GeneratedGraph, Kernel


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
    found: dict[tuple[object, ...], Folded] = {}
    for kernel in graph.kernels:
        places = tuple(sorted(place for place in shares(kernel, roots) if place is not None))
        key = (
            kernel.text_key or kernel.name, kernel.kind, kernel.bytes_read, kernel.bytes_written, kernel.flops, places,
        )  # fmt: skip
        known = found.get(key)
        found[key] = (
            Folded(kernel, 1, places) if known is None else Folded(known.kernel, known.count + 1, places)
        )
    return tuple(found.values())
