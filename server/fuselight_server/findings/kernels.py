"""FL701 and FL702: operators that no kernel is generated for, and graphs that are not replayed as CUDA graphs.

Invariant: one finding for each line and operator, or line and reason, with all launches; costs are estimates and say
so. What Inductor means to call from a library is no finding.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fuselight.report import KernelKind, is_library_call
from fuselight_server.findings.context import span_of, trail
from fuselight_server.findings.text import compose, quoted
from fuselight_server.kernels.words import microseconds, size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight.report import CudagraphSkip, GeneratedGraph, Kernel, Location, Stack
    from fuselight_server.finding import Finding
    from fuselight_server.findings.context import Context

_TORCHS = ("aten.", "prims.", "quantized.")
_VIEWS = frozenset(
    {"aten.view_as_real.default", "aten.view_as_complex.default", "aten.view.dtype", "aten.alias.default"}
)
"""Fallbacks that compute nothing: they look at a tensor otherwise."""
_OVERLOAD = re.compile(r"^(?:torch\.ops\.)?(\w+\.\w+)(?:\.\w+)?$")
_INSTANCES = re.compile(r" \((\d+) instances?\)")
_MUTATED, _UNSAFE, _DEVICES, _DYNAMIC = "mutated", "unsafe", "devices", "dynamic"
_REASONS = (
    (re.compile(r"mutat"), _MUTATED),
    (re.compile(r"unsafe custom op|custom partition op"), _UNSAFE),
    (re.compile(r"multiple devices|cpu device|^cpu ops|DeviceCopy"), _DEVICES),
    (re.compile(r"dynamic shape|symbolic|unbacked"), _DYNAMIC),
)
_WORDS = {
    _MUTATED: "it writes into a tensor that it was given",
    _UNSAFE: "a custom operator is marked as unsafe for CUDA graphs",
    _DEVICES: "part of it is not on the GPU",
    _DYNAMIC: "a size in it varies or depends on data",
}
_WHAT_TO_DO = {
    _MUTATED: (
        "Return the new value instead of writing it in place (`x = x + 1`)",
        "Or make the tensor a buffer of the module: parameters and buffers may be written into",
        "Expect no skip where the tensor comes out of another graph that is replayed",
    ),
    _UNSAFE: ("Take the tag `cudagraph_unsafe` off the operator, if what it does can be recorded",),
    _DEVICES: ("Move the work to the GPU, or out of the compiled function",),
    _DYNAMIC: ("Give it the same sizes each time, as by padding to a few sizes",),
}


def kernel_findings(context: Context) -> Iterator[Finding]:
    """The findings of the graphs that were generated."""
    yield from _fallbacks(context)
    device = context.report.target_device
    if device is not None and device.backend != "cpu":
        yield from _skips(context)


def _fallbacks(context: Context) -> Iterator[Finding]:
    groups: dict[tuple[Location | None, str], list[tuple[Kernel, Stack]]] = {}
    for graph in context.report.generated:
        for kernel in graph.kernels:
            name = _operator(kernel)
            if kernel.kind is not KernelKind.FALLBACK or name in _VIEWS or is_library_call(name):
                continue
            stack = next((one.stack for one in kernel.operators if one.stack), ())
            home = context.innermost_ours(stack)
            place = home and _line_of(home)
            groups.setdefault((place, name), []).append((kernel, stack))
    for (_, name), group in groups.items():
        yield _fallback(context, name, group)


def _fallback(context: Context, name: str, group: list[tuple[Kernel, Stack]]) -> Finding:
    stack = group[0][1]
    home = context.innermost_ours(stack)
    shown = quoted(_OVERLOAD.sub(r"\1", name))
    own = name.startswith(_TORCHS)
    kernels = [kernel for kernel, _ in group]
    moved = sum((kernel.bytes_read or 0) + (kernel.bytes_written or 0) for kernel in kernels)
    us = sum(kernel.estimate_us or 0 for kernel in kernels)
    device = context.report.target_device
    on = f" on {device.name}" if device is not None else ""
    cost = [
        "it is not fused with what is around it"
        + (f": {size(moved)} go through memory for it" if moved else "")
        + (f", likely {microseconds(us)}{on}" if us else "")
    ]
    if len(kernels) > 1:
        cost.append(f"{len(kernels)} launches of it")
    hints = (
        (
            "Leave it, where it is a small part of the time",
            "Or use operators that Inductor has kernels for: `fuselight ops` shows what each call becomes",
        )
        if own
        else (
            "Leave it: a custom operator is called as it is",
            "Or write it with torch operators, or wrap its Triton kernel with torch.library.triton_op",
        )
    )
    who = "ATen's own kernel" if own else "the operator's own code"
    return context.finding(
        "FL701",
        title=f"no kernel is generated for {shown}: {who} is called",
        message=compose(
            f"Inductor generates no code for {shown} here and calls {who}.", cost=cost, hints=hints
        ),
        span=span_of(home) if home else context.target_span(),
        hints=hints,
        related=trail(stack, without=home, verb="in"),
        count=len(kernels),
        cost=tuple(cost),
    )


def _skips(context: Context) -> Iterator[Finding]:
    groups: dict[tuple[Location | None, str], list[tuple[GeneratedGraph, CudagraphSkip]]] = {}
    for graph in context.report.generated:
        for skip in graph.cudagraph_skips:
            home = context.innermost_ours(skip.stack)
            key = (home and _line_of(home), _INSTANCES.sub("", skip.reason))
            groups.setdefault(key, []).append((graph, skip))
    for (_, reason), group in groups.items():
        yield _skip(context, reason, group)


def _skip(context: Context, reason: str, group: list[tuple[GeneratedGraph, CudagraphSkip]]) -> Finding:
    stack = group[0][1].stack
    home = context.innermost_ours(stack)
    kind = next((kind for pattern, kind in _REASONS if pattern.search(reason)), None)
    words = _WORDS[kind] if kind is not None else reason
    graphs = {(graph.compile_id, graph.phase): graph for graph, _ in group}
    count = sum(len(graph.kernels) for graph in graphs.values())
    launched = "1 kernel is" if count == 1 else f"up to {count} kernels are"
    cost = (f"{launched} launched one by one, and each launch costs the host several microseconds",)
    hints = _WHAT_TO_DO[kind] if kind is not None else ()
    return context.finding(
        "FL702",
        title=f"not replayed as a CUDA graph: {words}",
        message=compose(
            f"CUDA graphs were asked for, and this is left out of them: {words}.",
            f"torch's own words: {reason}." if kind is not None else "",
            cost=cost,
            hints=hints,
        ),
        span=span_of(home) if home else context.target_span(),
        hints=hints,
        related=trail(stack, without=home, verb="in"),
        count=len(group),
        cost=cost,
    )


def _operator(kernel: Kernel) -> str:
    """The operator that a fallback calls, as `aten.linalg_qr.default`."""
    name = kernel.name.removeprefix("torch.ops.")
    return kernel.operators[0].name if kernel.operators and "." not in name else name


def _line_of(location: Location) -> Location:
    """The line alone, to put together what is on it."""
    return type(location)(location.path, location.line)
