"""The binary search of a bisection, and the lookup of the kernel for its result. Does not need torch.

Invariant: in a result, the good position was tried and passed, or is where the search began; the bad position was tried
and failed, or is where the search ended.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fuselight.shared.report import GeneratedGraph, Phase, Stack

SECONDS = 300.0
"""Time limit of a bisection."""


class SpentError(Exception):
    """All trials are used."""


@dataclass(frozen=True)
class Narrowed:
    """The last good and the first bad position in ascending order, as far as they are known."""

    good: int
    bad: int
    spent: bool = False
    """Whether the trials ran out before both were known."""


def narrow(places: Sequence[int], fails: Callable[[int], bool | None]) -> Narrowed:
    """Search between a good first position and a bad last position; skips positions whose trial gives no answer."""
    left = list(places)
    while len(left) > 2:  # noqa: PLR2004 - a good one and a bad one
        middle = len(left) // 2
        try:
            failed = fails(left[middle])
        except SpentError:
            return Narrowed(left[0], left[-1], spent=True)
        if failed is None:
            del left[middle]
        else:
            left = left[: middle + 1] if failed else left[middle:]
    return Narrowed(left[0], left[-1])


def kernel_of(
    stack: Stack,
    generated: Sequence[GeneratedGraph],
    *,
    operator: str = "",
    compile_id: str | None = None,
    backward: bool = False,
) -> str:
    """Name the kernel that computes the operator of a line (or its gradient); empty if none or several may."""
    places = tuple((location.path, location.line) for location in stack)
    operator = operator.rpartition(".")[2].strip("_")
    of_line: dict[str, None] = {}
    of_operator: dict[str, None] = {}
    for graph in generated:
        if (graph.phase is Phase.BACKWARD) is not backward or compile_id not in (None, graph.compile_id):
            continue
        for kernel in graph.kernels:
            for fused_operator in kernel.operators:
                if places and tuple((frame.path, frame.line) for frame in fused_operator.stack) == places:
                    of_line[kernel.name] = None
                    if operator and operator in (fused_operator.original or fused_operator.name).split("."):
                        of_operator[kernel.name] = None
    kernels = list(of_operator or of_line)
    return kernels[0] if len(kernels) == 1 else ""
