"""FL701 to FL704: operators and graphs without kernels, graphs not replayed as CUDA graphs, unsupported dtypes.

Invariant: one finding for each line and operator, or line and reason, with all launches; costs are estimates and say
so. What Inductor means to call from a library is no finding.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from fuselight.devices import lacks
from fuselight.report import KernelKind, is_library_call
from fuselight_server.findings.context import span_of, trail
from fuselight_server.findings.text import compose, plain, quoted, sentence
from fuselight_server.formatting import format_estimate, format_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight.report import CudagraphSkip, GeneratedGraph, Kernel, Location, Stack
    from fuselight_server.finding import Finding
    from fuselight_server.findings.context import Context

_TORCHS = ("aten.", "prims.", "quantized.")
_VIEWS = frozenset(
    {"aten.view_as_real.default", "aten.view_as_complex.default", "aten.view.dtype", "aten.alias.default"}
)
"""Fallbacks that compute nothing: views of a tensor."""
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
    _MUTATED: "it writes into an input tensor",
    _UNSAFE: "a custom operator is marked as unsafe for CUDA graphs",
    _DEVICES: "part of it is not on the GPU",
    _DYNAMIC: "it has a size that varies or depends on data",
}
_WHAT_TO_DO = {
    _MUTATED: (
        "Return the new value instead of writing it in place (`x = x + 1`)",
        "Or make the tensor a buffer of the module: parameters and buffers may be written into",
        "No skip occurs if the tensor is the output of another captured graph",
    ),
    _UNSAFE: ("Remove the tag `cudagraph_unsafe` from the operator if its work can be captured",),
    _DEVICES: ("Move the work to the GPU, or out of the compiled function",),
    _DYNAMIC: ("Use the same sizes each time, for example by padding to a few sizes",),
}


def kernel_findings(context: Context) -> Iterator[Finding]:
    """The findings of the graphs that were generated."""
    yield from _fallbacks(context)
    yield from _lacking(context)
    for graph in context.report.generated:
        if graph.failure is not None:
            yield _failed(context, graph, graph.failure)
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
            home = context.innermost_user_frame(stack)
            place = home and _line_of(home)
            groups.setdefault((place, name), []).append((kernel, stack))
    for (_, name), group in groups.items():
        yield _fallback(context, name, group)


def _fallback(context: Context, name: str, group: list[tuple[Kernel, Stack]]) -> Finding:
    stack = group[0][1]
    home = context.innermost_user_frame(stack)
    shown = quoted(_OVERLOAD.sub(r"\1", name))
    own = name.startswith(_TORCHS)
    kernels = [kernel for kernel, _ in group]
    moved = sum((kernel.bytes_read or 0) + (kernel.bytes_written or 0) for kernel in kernels)
    us = sum(kernel.estimate_us or 0 for kernel in kernels)
    device = context.report.target_device
    on = f" on {device.name}" if device is not None else ""
    cost = [
        "it is not fused with the operators around it"
        + (f": {format_size(moved)} of memory traffic" if moved else "")
        + (f", likely {format_estimate(us)}{on}" if us else "")
    ]
    if len(kernels) > 1:
        cost.append(f"{len(kernels)} launches")
    hints = (
        (
            "Ignore it if it takes a small part of the time",
            "Or use operators that Inductor generates kernels for: `fuselight ops` shows what each call becomes",
        )
        if own
        else (
            "Ignore it: a custom operator is always called as it is",
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
        cost_us=us,
    )


def _skips(context: Context) -> Iterator[Finding]:
    groups: dict[tuple[Location | None, str], list[tuple[GeneratedGraph, CudagraphSkip]]] = {}
    for graph in context.report.generated:
        for skip in graph.cudagraph_skips:
            home = context.innermost_user_frame(skip.stack)
            key = (home and _line_of(home), _INSTANCES.sub("", skip.reason))
            groups.setdefault(key, []).append((graph, skip))
    for (_, reason), group in groups.items():
        yield _skip(context, reason, group)


def _skip(context: Context, reason: str, group: list[tuple[GeneratedGraph, CudagraphSkip]]) -> Finding:
    stack = group[0][1].stack
    home = context.innermost_user_frame(stack)
    kind = next((kind for pattern, kind in _REASONS if pattern.search(reason)), None)
    words = _WORDS[kind] if kind is not None else reason
    graphs = {(graph.compile_id, graph.phase): graph for graph, _ in group}
    count = sum(len(graph.kernels) for graph in graphs.values())
    launched = "1 kernel is" if count == 1 else f"up to {count} kernels are"
    cost = (f"{launched} launched one by one, at several microseconds of host time each",)
    hints = _WHAT_TO_DO[kind] if kind is not None else ()
    return context.finding(
        "FL702",
        title=f"not captured as a CUDA graph: {words}",
        message=compose(
            f"CUDA graphs are enabled, but torch skips this graph: {words}.",
            f"torch's message: {reason}." if kind is not None else "",
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


def _lacking(context: Context) -> Iterator[Finding]:
    device = context.report.target_device
    if device is None:
        return
    places: dict[str, Location | None] = {}
    for graph in context.report.generated:
        for kernel in graph.kernels:
            if kernel.dtype is not None and places.get(kernel.dtype) is None:
                places[kernel.dtype] = context.innermost_user_frame(*(one.stack for one in kernel.operators))
    for dtype, place in places.items():
        words = lacks(device, dtype)
        if words is not None:
            yield context.finding(
                "FL703",
                title=f"{device.name} has no fast unit for {dtype}",
                message=compose(sentence(plain(words))),
                span=span_of(place) if place else context.target_span(),
            )


def _failed(context: Context, graph: GeneratedGraph, why: str) -> Finding:
    device = context.report.target_device
    compiled = next((one for one in context.report.compiles if one.id == graph.compile_id), None)
    frames = context.report.frames
    others = any(one.kernels for one in context.report.generated)
    home = frames[compiled.frame].location if compiled and compiled.frame < len(frames) else None
    return context.finding(
        "FL704",
        title=f"no kernels for the {graph.phase.value} graph: {plain(why.splitlines()[0])}",
        message=compose(
            sentence(plain(why)),
            f"Inductor cannot generate this graph for {device.name if device else 'the device'}.",
            "Other graphs of the target have kernels." if others else "No graph of the target has kernels.",
        ),
        span=span_of(home) if home and context.is_user_file(home.path) else context.target_span(),
    )
