"""The user's own Triton kernels in captures: their lenses, and which of them stand on some lines.

Invariant: a kernel that several targets launch has one lens, of their newest captures. Lines are where edits have moved
them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from fuselight_server.editor.results.lens_facts import age, shorten, with_state
from fuselight_server.explain.kernels.own_kernels import by_function, key_of, summary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from fuselight.shared.report import OwnKernel, Report
    from fuselight_server.editor.results.captures import CaptureResult
    from fuselight_server.editor.results.snapshot import Snapshot

LONGEST = 120
"""Characters of the lens of a kernel, which has no other lens next to it."""


@dataclass(frozen=True)
class OwnKernelFact:
    """The lens of one kernel."""

    line: int
    """Of its `def`, where it is now."""
    last: int
    text: str
    target: str
    """The target whose run launched it."""


@dataclass(frozen=True)
class PlacedKernel:
    """One specialization, where its function is now."""

    result: CaptureResult
    kernel: OwnKernel
    line: int
    last: int


def own_kernel_facts(snapshot: Snapshot) -> Iterator[OwnKernelFact]:
    """Say above each kernel of a file what it was compiled to."""
    if snapshot.settings.kernels.lens == "off":
        return
    functions: dict[int, list[PlacedKernel]] = {}
    for placed in placed_kernels(snapshot.captures.values(), snapshot.path):
        functions.setdefault(placed.line, []).append(placed)
    for line, every in sorted(functions.items()):
        newest = every[0].result
        kernels = _distinct(every)
        (ordered,) = by_function(
            replace(kernel, location=every[0].kernel.location) for kernel in kernels
        ).values()
        text = summary(ordered, newest.report.own_kernels_device)
        state = age(newest)
        shown = with_state(shorten(text, LONGEST - len(state)), state)
        yield OwnKernelFact(line, every[0].last, shown, newest.key.name)


def _distinct(placed: Iterable[PlacedKernel]) -> list[OwnKernel]:
    """Specializations that differ, each from the newest capture that has it."""
    kernels: dict[str, OwnKernel] = {}
    for placed_kernel in placed:
        kernels.setdefault(key_of(placed_kernel.kernel), placed_kernel.kernel)
    return list(kernels.values())


def placed_kernels(results: Iterable[CaptureResult], path: str) -> list[PlacedKernel]:
    """Return the specializations of a file's kernels, those of the newest captures first."""
    placed = []
    for result in sorted((result.shown for result in results), key=lambda result: -result.generation):
        for kernel in result.report.own_kernels:
            if kernel.location.path != path:
                continue
            now = result.places.line_now(path, kernel.location.line)
            if now is not None:
                end = result.places.line_now(path, kernel.last_line)
                placed.append(
                    PlacedKernel(result, kernel, now.line, end.line if end is not None else now.line)
                )
    return placed


def merged(report: Report, further: Report) -> Report:
    """Add what a further run has compiled to the kernels of a report that are the same."""
    known = {key_of(kernel): kernel for kernel in further.own_kernels}

    def newer(kernel: OwnKernel) -> OwnKernel:
        compiled = known.get(key_of(kernel))
        if compiled is None:
            return kernel
        configurations = compiled.configurations
        if not any(configuration.is_compiled for configuration in configurations):
            configurations = kernel.configurations or configurations
        assembled = compiled.assembled
        before = kernel.assembled
        if assembled is None or (before is not None and before.disassembled and not assembled.disassembled):
            assembled = before
        return replace(kernel, assembled=assembled, configurations=configurations)

    return replace(report, own_kernels=tuple(map(newer, report.own_kernels)))
