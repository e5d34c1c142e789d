"""What autograd keeps for backward, by the line whose result it is.

Invariant: each storage is counted once, at the first tensor that shares it; parameters and inputs, which are kept
anyway, are counted apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuselight_server.kernels.shares import SourceLine, place_of

if TYPE_CHECKING:
    from fuselight.report import Report

ACTIVATION = "activation"
"""`SavedTensor.kind` of what is kept for the backward graph alone."""


@dataclass
class Kept:
    """Of one line."""

    tensors: int = 0
    bytes: int = 0


def kept_by_line(report: Report) -> dict[SourceLine | None, Kept]:
    """Activations that are kept, by line; None: those without one."""
    found: dict[SourceLine | None, Kept] = {}
    for graph in report.generated:
        for tensor in graph.saved:
            if tensor.kind == ACTIVATION:
                kept = found.setdefault(place_of(tensor.stack, report.roots), Kept())
                kept.tensors += 1
                kept.bytes += tensor.bytes
    return found
