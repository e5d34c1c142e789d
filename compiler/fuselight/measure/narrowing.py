"""The search of a bisection, and the kernel that belongs to what it found: no torch is needed for either.

Invariant: of two places that are told apart, the first was tried and good, or is where the search began, and so with
the second and bad.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from fuselight.report import GeneratedGraph, Phase, Stack

SECONDS = 300.0
"""That a bisection may take."""


class SpentError(Exception):
    """No trial is left."""


@dataclass(frozen=True)
class Narrowed:
    """Of ascending places, the last that is good and the first that is bad, as far as that is known."""

    good: int
    bad: int
    spent: bool = False
    """Whether the trials ended before it was known."""


def narrow(places: Sequence[int], fails: Callable[[int], bool | None]) -> Narrowed:
    """Search between a first place that is good and a last that is bad; a place that cannot be told is left out."""
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
    """Name the kernel that computes the operator of a line (or its gradient); empty where none does, or several may."""
    places = tuple((one.path, one.line) for one in stack)
    operator = operator.rpartition(".")[2].strip("_")
    of_line: dict[str, None] = {}
    of_operator: dict[str, None] = {}
    for graph in generated:
        if (graph.phase is Phase.BACKWARD) is not backward or compile_id not in (None, graph.compile_id):
            continue
        for kernel in graph.kernels:
            for one in kernel.operators:
                if places and tuple((frame.path, frame.line) for frame in one.stack) == places:
                    of_line[kernel.name] = None
                    if operator and operator in (one.original or one.name).split("."):
                        of_operator[kernel.name] = None
    found = list(of_operator or of_line)
    return found[0] if len(found) == 1 else ""
