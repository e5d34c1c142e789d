# ruff: noqa: SLF001 - private names are this package's business
"""Reads what Inductor's scheduler knows about a kernel: the origin of its operators, its dtypes.

Invariant: sizes are those of the inputs that the graph was generated for (hints if a size is symbolic). Unknown values
are None. The floating-point operations of an operator count once, for the launch that performs them: for a library call
its operator decides, not the operators fused around it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch._inductor.ir
import torch.fx
from torch._inductor.fx_utils import count_flops_fx, countable_fx
from torch._inductor.virtualized import V
from torch.utils import _pytree as pytree

from fuselight.adapters.torch_api.inductor.size_hints import lowered_hint, size_hint
from fuselight.shared.report import KernelKind, Phase

SHORT_DTYPES = {
    torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16", torch.int8: "i8",
    torch.float8_e4m3fn: "f8", torch.float8_e5m2: "f8", torch.float8_e4m3fnuz: "f8", torch.float8_e5m2fnuz: "f8",
}  # fmt: skip
"""Dtypes by the names that `Device.tflops` has for them."""
_KINDS: tuple[tuple[type, KernelKind], ...] = (
    (torch._inductor.ir.UserDefinedTritonKernel, KernelKind.USER_TRITON),
    (torch._inductor.ir.TemplateBuffer, KernelKind.TEMPLATE),
    (torch._inductor.ir.FallbackKernel, KernelKind.FALLBACK),
    (torch._inductor.ir.ExternKernel, KernelKind.EXTERN),
)
"""In this order: a fallback is an extern kernel, too, as is a Triton kernel of the user's."""
_USER_TRITON = "triton_kernel_wrapper_"
"""How the operators are called that launch a Triton kernel of the user's."""
_MOVES = frozenset({"load", "store", "output", "get_index"})
"""What a loop consists of that stores what it loads."""
_CAUSAL = "is_causal"


@dataclass(frozen=True)
class Access:
    """How a loop goes through a tensor: two that are equal touch the same elements in the same order."""

    index: str
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Touched:
    """The inputs and outputs of a graph that one launch touches."""

    reads: dict[str, frozenset[Access]] = field(default_factory=dict)
    writes: dict[str, frozenset[Access]] = field(default_factory=dict)
    elements: tuple[int, int] = (0, 0)
    """How many results the loop has, and how many elements go into each."""
    generated: bool = False
    """Whether its code is generated, so that others can be fused into it."""


def origins(nodes: Iterable[Any]) -> list[torch.fx.Node]:
    """The nodes of the ATen graph that IR nodes were made of, in the graph's order.

    What calls a library has one node of its own, where Inductor knows it; its `origins` hold those of its inputs too.
    """
    origins: dict[torch.fx.Node, None] = {}
    for node in nodes:
        get = getattr(node, "get_origins", None)
        every = [
            origin
            for origin in (get() if get is not None else getattr(node, "origins", ()))
            if origin.op == "call_function"
        ]
        for origin in _own(node, every) if isinstance(node, torch._inductor.ir.ExternKernel) else every:
            origins.setdefault(origin)
    graph: Any = V.graph.graph  # which may be a placeholder, by its declared type
    return sorted(origins, key=lambda node: (node.graph is not graph, node._sort_key))


def _own(node: Any, every: list[torch.fx.Node]) -> list[torch.fx.Node]:
    own = getattr(node, "origin_node", None)
    if own is not None and own.op == "call_function":
        return [own]
    if isinstance(node, torch._inductor.ir.UserDefinedTritonKernel):
        return [origin for origin in every if str(origin.target).startswith(_USER_TRITON)] or every
    overload = getattr(node, "op_overload", None)
    return [origin for origin in every if overload is not None and origin.target is overload] or every


def operator_names(node: torch.fx.Node) -> tuple[str, str]:
    """The operator of a node, and the one of the captured graph that it was decomposed from (empty: itself)."""
    name = str(node.target)
    original = node.meta.get("original_aten")
    before = "" if original is None else str(original)
    return name, "" if before == name else before


def is_copy(members: Sequence[Any]) -> bool:
    """Whether a generated kernel stores what it loads, and computes nothing."""
    bodies = [getattr(member, "_body", None) for member in members]
    return bool(bodies) and all(
        body is not None and body.op_counts["load"] > 0 and _MOVES.issuperset(body.op_counts)
        for body in bodies
    )


def touched(members: Sequence[Any]) -> Touched:
    """What a launch touches of its graph's inputs and outputs."""
    shared = {*V.graph.graph_input_names, *output_names(V.graph)}
    reads: dict[str, set[Access]] = {}
    writes: dict[str, set[Access]] = {}
    for member in members:
        for elements, deps in ((reads, member.read_writes.reads), (writes, member.read_writes.writes)):
            for dep in deps:
                if dep.name in shared:
                    accesses = elements.setdefault(dep.name, set())
                    if hasattr(dep, "normalize") and hasattr(dep, "index"):
                        plain = dep.normalize()
                        accesses.add(
                            Access(str(plain.index), tuple(lowered_hint([size]) for size in plain.size))
                        )
    bodies = [getattr(member, "_body", None) for member in members]
    generated = bool(bodies) and all(body is not None for body in bodies)
    return Touched(
        {name: frozenset(accesses) for name, accesses in reads.items()},
        {name: frozenset(accesses) for name, accesses in writes.items()},
        _elements(members) if generated else (0, 0),
        generated,
    )


def output_names(graph: Any) -> list[str]:
    """The scheduler's names of a graph's outputs, by position; empty for an output that is no tensor."""
    return [_buffer_name(output) for output in graph.graph_outputs or ()]


def _buffer_name(output: Any) -> str:
    try:
        return str(output.get_name())
    except (AttributeError, NotImplementedError):  # a number, or nothing
        return ""


def _elements(members: Sequence[Any]) -> tuple[int, int]:
    """Of the group of a reduction among them, as for a fused node: a pair of sizes, for C++ of tuples of sizes."""
    results, each = max(members, key=lambda member: int(member.is_reduction())).group[1][:2]
    return lowered_hint(results if isinstance(results, (tuple, list)) else [results]), lowered_hint(
        each if isinstance(each, (tuple, list)) else [each]
    )


def compute_dtype(nodes: Iterable[Any]) -> torch.dtype | None:
    """The widest dtype among what a kernel's nodes make."""
    dtypes = [dtype for node in nodes if (dtype := _dtype(node)) is not None]
    return _widest(dtypes)


def _widest(dtypes: Iterable[torch.dtype]) -> torch.dtype | None:
    return max(dtypes, key=lambda dtype: (dtype.is_floating_point, dtype.itemsize), default=None)


def ready_made(nodes: Iterable[Any]) -> KernelKind | None:
    """The kind of a launch whose kernel Inductor does not write itself; None for one that it writes."""
    every = list(nodes)
    return next((kind for of, kind in _KINDS if any(isinstance(node, of) for node in every)), None)


def is_view(nodes: Iterable[Any]) -> bool:
    """Whether a call of an operator only makes a view of a tensor: it launches nothing on the device."""
    every = list(nodes)
    operators = [getattr(node, "op_overload", None) for node in every]
    return bool(every) and all(getattr(operator, "is_view", False) is True for operator in operators)


def phase(graph: Any) -> Phase:
    """The phase of a GraphLowering."""
    if graph.is_backward:
        return Phase.BACKWARD
    return Phase.INFERENCE if graph.is_inference else Phase.FORWARD


def nodes_of(scheduled: Any) -> list[Any]:
    """The IR nodes of a node of the scheduler."""
    return [member.node for member in _members(scheduled) if member.node is not None]


def _members(scheduled: Any) -> Sequence[Any]:
    return scheduled.get_nodes() if scheduled is not None else ()


def _dtype(node: Any) -> torch.dtype | None:
    try:
        dtype: torch.dtype | None = node.get_dtype()
    except (AttributeError, NotImplementedError, AssertionError):  # several outputs, or none
        return None
    return dtype


def members_of(nodes: Iterable[Any], scheduled: Any) -> tuple[Any, ...]:
    """The scheduler nodes of a launch's IR nodes.

    The scheduler's current node, `scheduled`, is not enough: a C++ kernel collects nodes until it is full and is
    written only when the scheduler reaches the next node.
    """
    known = getattr(V.graph.scheduler, "name_to_node", {})
    names = [node.get_operation_name() for node in nodes if getattr(node, "operation_name", None)]
    members = dict.fromkeys(known[name] for name in names if name in known)
    return tuple(members) or tuple(_members(scheduled))


def flops(nodes: Iterable[Any]) -> int | None:
    """Floating-point operations of the matrix multiplications, convolutions and attention of a launch's IR nodes.

    Causal attention counts half, because its kernels skip masked elements. None if the launch has no such operator or
    the number depends on data.
    """
    counted = [_flops(node) for node in _computing(nodes)]
    known = [count for count in counted if count]
    return sum(known) if known else None


def operand_dtype(nodes: Iterable[Any]) -> torch.dtype | None:
    """What a library or template multiplies: the dtype of its largest operand. None where it multiplies nothing."""
    operands = [
        value
        for node in _computing(nodes)
        for input_node in node.all_input_nodes
        if isinstance(value := input_node.meta.get("val"), torch.Tensor)
    ]
    largest = max(operands, key=lambda value: size_hint(value.numel()) or 0, default=None)
    return None if largest is None else largest.dtype


def result_dtype(nodes: Iterable[Any]) -> torch.dtype | None:
    """The widest dtype among what library calls give: Inductor gives none to a call that may have several results."""
    values = [value for node in _called(nodes) for value in pytree.tree_leaves(node.meta.get("val"))]
    return _widest(value.dtype for value in values if isinstance(value, torch.Tensor))


def is_convolution(nodes: Iterable[Any]) -> bool:
    """Whether a launch is a convolution, or the backward of one."""
    return any("convolution" in str(node.target) for node in _computing(nodes))


def takes_tf32(*, convolution: bool) -> bool:
    """Whether torch may compute float32 in TF32: as it is set, which for convolutions it is from the start."""
    backends: Any = torch.backends
    settings = backends.cudnn.conv if convolution else backends.cuda.matmul
    return str(settings.fp32_precision) == "tf32"


def _called(nodes: Iterable[Any]) -> list[torch.fx.Node]:
    """The operators that libraries and templates stand for."""
    return origins([node for node in nodes if ready_made([node]) is not None])


def _computing(nodes: Iterable[Any]) -> list[torch.fx.Node]:
    return [node for node in _called(nodes) if countable_fx(node)]


def _flops(node: torch.fx.Node) -> int | None:
    try:
        count: Any = count_flops_fx(node)
    except Exception:  # noqa: BLE001 - it calls the operator on fake tensors, which raises what it likes
        return None
    known = None if count is None else size_hint(count)
    return known if known is None or not _is_causal(node) else known // 2


def _is_causal(node: torch.fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    names = [argument.name for argument in schema.arguments] if schema is not None else []
    if _CAUSAL not in names:
        return False
    position = names.index(_CAUSAL)
    given = node.args[position] if position < len(node.args) else node.kwargs.get(_CAUSAL)
    return given is True
