"""The user's own Triton kernels in captures: their lenses, and which of them stand on some lines.

Invariant: a kernel that several targets launch has one lens, of their newest captures. Lines are where edits have moved
them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from fuselight.shared.report import Location, OwnKernel, Report, is_user_file
from fuselight_server.editor.results.captures import CaptureResult
from fuselight_server.editor.results.lens_facts import age, shorten, with_state
from fuselight_server.editor.results.snapshot import Snapshot
from fuselight_server.explain.kernels.own_kernels import by_function, figures, key_of, summary

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
    is_call: bool = False
    """Whether the lines are those of the user's call, of a kernel of a library."""


def own_kernel_facts(snapshot: Snapshot) -> Iterator[OwnKernelFact]:
    """Say above each kernel of a file what it was compiled to."""
    if snapshot.settings.kernels.lens == "off":
        return
    functions: dict[int, list[PlacedKernel]] = {}
    calls: dict[int, list[PlacedKernel]] = {}
    for placed in placed_kernels(snapshot.captures.values(), snapshot.path):
        (calls if placed.is_call else functions).setdefault(placed.line, []).append(placed)
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
    for line, every in sorted(calls.items()):
        newest = every[0].result
        state = age(newest)
        shown = with_state(shorten(_call_words(every), LONGEST - len(state)), state)
        yield OwnKernelFact(line, line, shown, newest.key.name)


def _call_words(placed: Sequence[PlacedKernel]) -> str:
    """`Triton kernel add_k of liger_kernel: 64 registers`, of several kernels `3 Triton kernels of fla: a, b, c`."""
    kernels = _distinct(placed)
    names = list(dict.fromkeys(kernel.name for kernel in kernels))
    library = kernels[0].library
    if len(names) > 1:
        return f"{len(names)} Triton kernels of {library}: {', '.join(names)}"
    compiled = next((kernel for kernel in kernels if kernel.assembled is not None), None)
    facts = f": {', '.join(figures(compiled))}" if compiled is not None else ""
    return f"Triton kernel {names[0]} of {library}{facts}"


def _distinct(placed: Iterable[PlacedKernel]) -> list[OwnKernel]:
    """Specializations that differ, each from the newest capture that has it."""
    kernels: dict[str, OwnKernel] = {}
    for placed_kernel in placed:
        kernels.setdefault(key_of(placed_kernel.kernel), placed_kernel.kernel)
    return list(kernels.values())


def placed_kernels(results: Iterable[CaptureResult], path: str) -> list[PlacedKernel]:
    """Return the specializations of a file's kernels, those of the newest captures first.

    Kernels of libraries are also at the lines of the file that call the library.
    """
    placed = []
    for result in sorted((result.shown for result in results), key=lambda result: -result.generation):
        for kernel in result.report.own_kernels:
            if kernel.library:
                call = _call_of(kernel, result.report)
                if call is not None and call.path == path:
                    line = result.places.line_now(path, call.line)
                    if line is not None:
                        placed.append(PlacedKernel(result, kernel, line.line, line.line, is_call=True))
            if kernel.location.path != path:
                continue
            now = result.places.line_now(path, kernel.location.line)
            if now is not None:
                end = result.places.line_now(path, kernel.last_line)
                placed.append(
                    PlacedKernel(result, kernel, now.line, end.line if end is not None else now.line)
                )
    return placed


def _call_of(kernel: OwnKernel, report: Report) -> Location | None:
    """The line of the user's files from which a kernel was launched."""
    return next((at for at in reversed(kernel.launched_at) if is_user_file(at.path, report.roots)), None)


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
