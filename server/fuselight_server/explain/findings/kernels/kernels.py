"""FL701 to FL707: operators and graphs without kernels, CUDA graphs, dtypes, breaks, copies, repeats.

Invariant: one finding for each line and cause, with all launches. Costs are estimates and say so; the bytes that a
break sends through memory are an upper bound. What Inductor means to call from a library is no finding, nor is a copy
that the program asks for by name (`copy_`, `cat`). Repeated instances are equal in every operator and size.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TypeVar

from fuselight.shared.codec import read_table
from fuselight.shared.devices import BANDWIDTH_REACHED, lacks
from fuselight.shared.report import (
    Break,
    CudagraphSkip,
    Frame,
    GeneratedGraph,
    Handed,
    Kernel,
    KernelKind,
    Location,
    Phase,
    Repeated,
    Stack,
    is_library_call,
)
from fuselight_server.base.finding import Finding
from fuselight_server.base.formatting import format_count, format_estimate, format_percent, format_size
from fuselight_server.explain.findings.common.context import Context
from fuselight_server.explain.findings.common.text import plain, quoted, sentence

T = TypeVar("T")

_TORCHS = ("aten.", "prims.", "quantized.")
_WRAPPER = "higher_order."
"""Namespace of torch's operators that call other operators, as activation checkpointing does for random numbers."""
_RANDOM_STATE = "rng_state"
"""In the names of those that save the state of the random number generator, or set it."""
_SAVED_RANDOM_STATE = (
    "Ignore it: activation checkpointing calls an operator by it, to repeat its random numbers"
)
_VIEWS = frozenset(
    {"aten.view_as_real.default", "aten.view_as_complex.default", "aten.view.dtype", "aten.alias.default"}
)
"""Fallbacks that compute nothing: views of a tensor."""
_SEEDS = "aten.randint.low_out"
"""Draws the seeds of the random numbers of a graph: a call of Inductor's own, which has no line of the user's."""
_OVERLOAD = re.compile(r"^(?:torch\.ops\.)?(\w+\.\w+)(?:\.\w+)?$")
_INSTANCES = re.compile(r" \((\d+) instances?\)")
_SKIPS = read_table(tuple[tuple[str, str, tuple[str, ...]], ...], __file__)
"""Torch's reasons for skipping a CUDA graph: how to recognize one, what it means, what to do."""


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
    yield from _boundaries(context)
    yield from _copies(context)
    yield from _repeated(context)


def _by_line(context: Context, launches: Iterable[tuple[Stack, str, T]]) -> list[tuple[Stack, str, list[T]]]:
    """Group what was found by the user's line in its stack and by its cause; each group has its first stack."""
    groups: dict[object, tuple[Stack, str, list[T]]] = {}
    for stack, cause, value in launches:
        home = context.innermost_user_frame(stack)
        key = (home and (home.path, home.line), cause)
        groups.setdefault(key, (stack, cause, []))[2].append(value)
    return list(groups.values())


def _placed(context: Context, graph: GeneratedGraph, stack: Stack) -> Stack:
    """The stack; of work that no line of the user calls, the function of its graph, or else the call of the run."""
    if context.innermost_user_frame(stack) is not None:
        return stack
    home = context.home_of_graph(graph.compile_id)
    return stack if home is None else (home,)


def _device_name(context: Context) -> str:
    device = context.report.target_device
    return device.name if device is not None else "the device"


def _fallbacks(context: Context) -> Iterator[Finding]:
    fallbacks = [
        (_placed(context, graph, stack), name, kernel)
        for graph in context.report.generated
        for kernel in graph.kernels
        if kernel.kind is KernelKind.FALLBACK
        for name in (_operator(kernel),)
        for stack in (next((operator.stack for operator in kernel.operators if operator.stack), ()),)
        if name not in _VIEWS and not is_library_call(name) and not (name == _SEEDS and not stack)
    ]
    for stack, name, kernels in _by_line(context, fallbacks):
        yield _fallback(context, stack, name, kernels)


def _fallback(context: Context, stack: Stack, name: str, kernels: list[Kernel]) -> Finding:
    shown = quoted(_OVERLOAD.sub(r"\1", name))
    own = name.startswith(_TORCHS)
    moved = _moved(kernels)
    us = _us(kernels)
    device = context.report.target_device
    on = f" on {device.name}" if device is not None else ""
    cost = [
        "it is not fused with the operators around it"
        + (f": {format_size(moved)} of memory traffic" if moved else "")
        + (f", likely {format_estimate(us)}{on}" if us else "")
    ]
    if len(kernels) > 1:
        cost.append(f"{len(kernels)} launches")
    who = "ATen's own kernel" if own else "the operator's own code"
    return context.finding(
        "FL701",
        f"no kernel is generated for {shown}: {who} is called",
        f"Inductor generates no code for {shown} here and calls {who}.",
        stack=stack,
        cost=cost,
        hints=_fallback_hints(name),
        count=len(kernels),
        cost_us=us,
    )


def _fallback_hints(name: str) -> tuple[str, ...]:
    if name.startswith(_WRAPPER) and _RANDOM_STATE in name:
        return (_SAVED_RANDOM_STATE,)
    if name.startswith(_WRAPPER):
        return ("Ignore it: it is torch's own, and calls other operators",)
    if name.startswith(_TORCHS):
        return (
            "Ignore it if it takes a small part of the time",
            "Or use operators that Inductor generates kernels for: `fuselight ops` shows what each call becomes",
        )
    return (
        "Ignore it: a custom operator is always called as it is",
        "Or write it with torch operators, or wrap its Triton kernel with torch.library.triton_op",
    )


def _us(kernels: Iterable[Kernel]) -> float:
    return sum(kernel.estimate_us or 0 for kernel in kernels)


def _moved(kernels: Iterable[Kernel]) -> int:
    return sum((kernel.bytes_read or 0) + (kernel.bytes_written or 0) for kernel in kernels)


def _skips(context: Context) -> Iterator[Finding]:
    skips = (
        (_placed(context, graph, skip.stack), _INSTANCES.sub("", skip.reason), (graph, skip))
        for graph in context.report.generated
        for skip in graph.cudagraph_skips
    )
    for stack, reason, group in _by_line(context, skips):
        yield _skip(context, stack, reason, group)


def _skip(
    context: Context, stack: Stack, reason: str, group: list[tuple[GeneratedGraph, CudagraphSkip]]
) -> Finding:
    known = next((words for pattern, *words in _SKIPS if re.search(pattern, reason)), None)
    words, hints = known or (reason, ())
    graphs = {(graph.compile_id, graph.phase): graph for graph, _ in group}
    count = sum(len(graph.kernels) for graph in graphs.values())
    launched = "1 kernel is" if count == 1 else f"up to {count} kernels are"
    return context.finding(
        "FL702",
        f"not captured as a CUDA graph: {words}",
        f"CUDA graphs are enabled, but torch skips this graph: {words}.",
        f"torch's message: {reason}." if known else "",
        stack=stack,
        cost=(f"{launched} launched one by one, at several microseconds of host time each",),
        hints=hints,
        count=len(group),
    )


def _operator(kernel: Kernel) -> str:
    """The operator that a fallback calls, as `aten.linalg_qr.default`."""
    name = kernel.name.removeprefix("torch.ops.")
    return kernel.operators[0].name if kernel.operators and "." not in name else name


def _lacking(context: Context) -> Iterator[Finding]:
    device = context.report.target_device
    if device is None:
        return
    places: dict[str, Location | None] = {}
    for graph in context.report.generated:
        for kernel in graph.kernels:
            if kernel.dtype is not None and places.get(kernel.dtype) is None:
                places[kernel.dtype] = context.innermost_user_frame(
                    *(operator.stack for operator in kernel.operators)
                )
    for dtype, place in places.items():
        words = lacks(device, dtype)
        if words is not None:
            title = f"{device.name} has no fast unit for {dtype}"
            yield context.finding("FL703", title, sentence(plain(words)), at=place)


def _failed(context: Context, graph: GeneratedGraph, why: str) -> Finding:
    frame = context.frame_of(context.compile_of(graph.compile_id))
    others = any(generated_graph.kernels for generated_graph in context.report.generated)
    return context.finding(
        "FL704",
        f"no kernels for the {graph.phase.value} graph: {plain(why.splitlines()[0])}",
        sentence(plain(why)),
        f"Inductor cannot generate this graph for {_device_name(context)}.",
        "Other graphs of the target have kernels." if others else "No graph of the target has kernels.",
        at=context.innermost_user_frame((frame.location,)) if frame is not None else None,
    )


_BREAK_HINTS = (
    "See the finding of the graph break on this line for what may remove it",
    "Or move the line to a place where fewer tensors cross it, such as the end of the function",
)


def _boundaries(context: Context) -> Iterator[Finding]:
    """FL705: a finding for each break between kernels that could be fused, above the threshold.

    Each tensor is one that the report proves: written by a generated kernel at the end of one graph, read in the same
    way by a generated kernel of the next, with a break between the two.
    """
    device, least = context.report.target_device, context.thresholds.kernel_share
    whole = context.estimated_us
    if device is None or not device.bandwidth_gbs or not whole or not least:
        return
    groups: dict[Location, tuple[Break, list[Handed]]] = {}
    for graph in context.report.generated:
        fusible = [handed_tensor for handed_tensor in graph.handed if handed_tensor.fusible]
        broke = _between(context, graph, fusible[0].graph) if fusible else None
        home = context.innermost_user_frame(broke.stack, broke.above) if broke is not None else None
        if broke is not None and home is not None:
            groups.setdefault(home, (broke, []))[1].extend(fusible)
    for home, (broke, handed) in groups.items():
        traffic = sum(handed_tensor.bytes * (2 if _spared(handed_tensor) else 1) for handed_tensor in handed)
        us = traffic / (device.bandwidth_gbs * 1e3 * BANDWIDTH_REACHED)
        if us >= whole * least:
            yield _break_finding(context, home, broke, handed, us)


def _break_finding(
    context: Context, home: Location, broke: Break, handed: list[Handed], us: float
) -> Finding:
    written, read = (
        sum(handed_tensor.bytes for handed_tensor in handed if _spared(handed_tensor)),
        sum(handed_tensor.bytes for handed_tensor in handed),
    )
    tensors = format_count(len(handed), "tensor")
    moved = f"{format_size(written)} written and {format_size(read)}" if written else format_size(read)
    part = format_percent(us, context.estimated_us)
    time = f"{format_estimate(us)} on {_device_name(context)} ({part} of the target's kernel time)"
    goes = "goes" if len(handed) == 1 else "go"
    return context.finding(
        "FL705",
        f"this graph break prevents fusing the kernels before and after it: {tensors} {goes} through memory",
        "The last kernel before the break writes what the first kernel after it reads, in the same order; in one "
        "graph Inductor may fuse the two. The bytes are an upper bound, because a tensor that the program returns "
        "or uses on this line is written anyway.",
        at=home,
        stack=broke.stack,
        cost=(f"up to {moved} read more than in one graph, {time}",),
        hints=_BREAK_HINTS,
        count=len(handed),
        cost_us=us,
    )


def _spared(handed_tensor: Handed) -> bool:
    """Whether only kernels that could be fused with the tensor's writer read it."""
    return not handed_tensor.kept and handed_tensor.fusible == handed_tensor.read_by


def _between(context: Context, graph: GeneratedGraph, earlier: int) -> Break | None:
    """The break between a graph and the one that ran before it; None where the report does not show it."""
    reader = context.compile_of(graph.compile_id)
    before = next(
        (generated_graph for generated_graph in context.report.generated if generated_graph.graph == earlier),
        None,
    )
    writer = context.compile_of(before.compile_id) if before is not None else None
    frame = context.frame_of(reader)
    if reader is None or frame is None or writer is None or reader.call != writer.call:
        return None
    if frame.resumes_at is not None:
        graph_breaks = [
            graph_break
            for graph_break in context.report.breaks
            if _is_at(graph_break, frame, frame.resumes_at)
        ]
    else:  # a function that the one before it called, and could not take in
        graph_breaks = [
            graph_break
            for graph_break in context.report.breaks
            if graph_break.compile_id == writer.id and any(_is_in(at, frame) for at in graph_break.stack[1:])
        ]
    return max(graph_breaks, key=lambda graph_break: len(graph_break.stack), default=None)


def _is_at(graph_break: Break, frame: Frame, line: int) -> bool:
    """Whether a break is where the function of a frame resumes."""
    if not graph_break.stack or graph_break.frame_skipped:
        return False
    at = graph_break.stack[0]
    return at.path == frame.location.path and at.line <= line <= (at.end_line or at.line)


def _is_in(at: Location, frame: Frame) -> bool:
    name = frame.function.rpartition(".")[2]
    return at.path == frame.location.path and (at.function or "").rpartition(".")[2] == name


_CLONE = "aten.clone"
_COPY_VIEWS = frozenset({
    "aten._unsafe_view", "aten.alias", "aten.as_strided", "aten.diagonal", "aten.expand", "aten.permute",
    "aten.reshape", "aten.select", "aten.slice", "aten.split", "aten.split_with_sizes", "aten.squeeze", "aten.t",
    "aten.transpose", "aten.unbind", "aten.unfold", "aten.unsqueeze", "aten.view",
})  # fmt: skip
_CONVOLUTION = "aten.convolution"
_MULTIPLICATIONS = frozenset({"aten.addmm", "aten.baddbmm", "aten.bmm", "aten.mm"})
_HINTS_CLONE: tuple[str, ...] = (
    "Remove `contiguous()` or `clone()` if the next operator accepts any layout, as generated kernels do",
    "Or create the tensor in the order in which it is read; `reshape` of a transposed tensor also copies",
)
_HINTS_CONVOLUTION = (
    "Use channels_last for the model and its inputs: `model.to(memory_format=torch.channels_last)`",
)
_HINTS_LIBRARY = ("Pass the operator a contiguous tensor, without a transpose or slice before it",)


def _copies(context: Context) -> Iterator[Finding]:
    """FL706: a finding for each line whose copies take a share of the time.

    A kernel counts that stores what it loads and is bound by memory, as for `contiguous()` or the layout of a library.
    """
    least, whole = context.thresholds.kernel_share, context.estimated_us
    if not least or not whole:
        return
    copies = (
        (_copy_place(kernel, cause), cause, kernel)
        for graph in context.report.generated
        for kernel in graph.kernels
        if (cause := _copy_cause(kernel)) is not None
    )
    for stack, cause, kernels in _by_line(context, copies):
        if _us(kernels) >= whole * least:
            yield _copy_finding(context, stack, cause, kernels)


def _copy_cause(kernel: Kernel) -> str | None:
    """`aten.clone`, or the library's operator that the copy is made for; None for what is no copy of that kind."""
    if not kernel.copies or kernel.bound != "memory":
        return None
    computing = [operator.name for operator in kernel.operators if _short(operator.name) not in _COPY_VIEWS]
    library = [name for name in computing if is_library_call(name) or _short(name) in _MULTIPLICATIONS]
    if library:
        return _short(library[-1])
    return _CLONE if computing and set(computing) == {f"{_CLONE}.default"} else None


def _copy_place(kernel: Kernel, cause: str) -> Stack:
    """Of the operator that the copy is for: the last of a library's, whose origins hold those of its inputs, too."""
    stacks = [
        operator.stack for operator in kernel.operators if _short(operator.name) == cause and operator.stack
    ]
    return next(iter(stacks if cause == _CLONE else reversed(stacks)), ())


def _copy_finding(context: Context, stack: Stack, cause: str, kernels: list[Kernel]) -> Finding:
    us = _us(kernels)
    if cause == _CLONE:
        title, what = "a kernel only copies here", "The kernel copies a tensor"
        hints = _HINTS_CLONE
    else:
        title = f"a kernel only copies here, for the layout that `{cause}` requires"
        what = f"The kernel copies a tensor to the layout that the library's `{cause}` requires"
        hints = _HINTS_CONVOLUTION if cause == _CONVOLUTION else _HINTS_LIBRARY
    launches = format_count(len(kernels), "launch", "launches")
    share = format_percent(us, context.estimated_us)
    return context.finding(
        "FL706",
        title,
        f"{what} and computes nothing.",
        stack=stack,
        cost=(
            f"{launches}: {format_size(_moved(kernels))} read and written",
            f"likely {format_estimate(us)} on {_device_name(context)}, {share} of the target's kernel time",
        ),
        hints=hints,
        count=len(kernels),
        cost_us=us,
    )


def _short(name: str) -> str:
    """`aten.clone.default` as `aten.clone`."""
    return ".".join(name.split(".")[:2])


_LEAST_PART = 0.5
"""Of a graph's operators: below, the rest of the graph takes most of the time anyway."""
_LEAST_REPEATED = 100
"""Least number of repeated operators for a finding: a second or two of code generation."""


def _repeated(context: Context) -> Iterator[Finding]:
    """FL707: a finding for each module with many equal instances in a graph, and each graph compiled many times."""
    least = context.thresholds.repeats
    if not least:
        return
    reported = set()
    for graph in context.report.generated:
        repeat = graph.repeated
        if repeat is None or repeat.count < least or repeat.operators < repeat.whole * _LEAST_PART:
            continue
        if _again(repeat) >= _LEAST_REPEATED and repeat.name not in reported:
            reported.add(repeat.name)
            yield _in_one_graph(context, graph, repeat)
    yield from _as_many_graphs(context, least)


def _again(repeat: Repeated) -> int:
    """Return the number of operators in all instances after the first."""
    return repeat.operators - repeat.operators // repeat.count


def _in_one_graph(context: Context, graph: GeneratedGraph, repeat: Repeated) -> Finding:
    seconds = next(
        (record.seconds for record in context.report.compiles if record.id == graph.compile_id), None
    )
    again = _again(repeat)
    cost = [
        f"{repeat.operators} of the graph's {repeat.whole} captured operators are in the {repeat.count} instances",
        f"{format_percent(again, repeat.whole)} of all operators are in the instances after the first",
    ]
    if seconds is not None:
        cost.append(
            f"this graph took {seconds:.1f} s to compile here, ~{seconds * again / repeat.whole:.1f} s of it for those "
            "instances"
        )
    name = repeat.name.rpartition(".")[2]
    return context.finding(
        "FL707",
        f"{repeat.count} equal instances of `{name}` are compiled one by one: one compile of the block is enough",
        f"The graph contains `{name}` {repeat.count} times, with the same operators on the same sizes. Each is "
        "captured and compiled separately.",
        at=context.innermost_user_frame(
            repeat.call, (repeat.location,) if repeat.location is not None else ()
        ),
        stack=repeat.call,
        cost=cost,
        hints=(
            (
                f"Compile each `{name}` instead of the whole model, with `block.compile()`: equal instances share one "
                "compile"
            ),
            "Or ignore it if compile time does not matter: only one graph fuses kernels across block boundaries",
        ),
        count=repeat.count,
    )


def _as_many_graphs(context: Context, least: int) -> Iterator[Finding]:
    """Graphs whose ATen text is the same, which were generated each by itself."""
    groups: dict[tuple[str, int], tuple[Frame, list[GeneratedGraph]]] = {}
    for graph in context.report.generated:
        compilation = context.compile_of(graph.compile_id)
        frame = context.frame_of(compilation)
        if graph.aten_key is not None and graph.phase is not Phase.BACKWARD and compilation and frame:
            groups.setdefault((graph.aten_key, compilation.frame), (frame, []))[1].append(graph)
    for frame, graphs in groups.values():
        launches = sum(len(generated_graph.kernels) for generated_graph in graphs)
        if len(graphs) >= least and launches:
            yield _many_graphs(context, graphs, frame, launches)


def _many_graphs(context: Context, graphs: list[GeneratedGraph], frame: Frame, launches: int) -> Finding:
    function = frame.function
    whole = sum(len(graph.kernels) for graph in context.report.generated if graph.phase is not Phase.BACKWARD)
    seconds = {record.id: record.seconds or 0.0 for record in context.report.compiles}
    spent = sum(seconds[graph.compile_id] for graph in graphs[1:])
    took = f"; the graphs after the first took {spent:.1f} s to compile here" if spent else ""
    return context.finding(
        "FL707",
        f"the same graph of `{function}` is compiled {len(graphs)} times: once is enough",
        f"`{function}` was compiled {len(graphs)} times to the same operators.",
        at=context.innermost_user_frame((frame.location,)),
        cost=(f"{launches} of the target's {whole} launches are in these graphs{took}",),
        hints=(
            f"See the recompilation finding of `{function}` for what each compile was specialized to",
            "Pass such values to the block as tensors: it is then compiled once",
        ),
        count=len(graphs),
    )
