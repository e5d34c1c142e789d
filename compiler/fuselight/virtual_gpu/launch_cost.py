"""The FLOPs and dtype of one launch. For a library call, its operator decides, not the operators fused around it.

Invariant: the floating-point operations of an operator count once, for the launch that performs them. What cannot be
counted is None.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx
from torch._inductor.fx_utils import count_flops_fx, countable_fx
from torch._inductor.virtualized import V

from fuselight.virtual_gpu.scheduler_nodes import is_extern, is_template, origins

_CAUSAL = "is_causal"


@dataclass(frozen=True)
class Members:
    """Nodes of the scheduler that one launch computes, in the place of the one that they are all of."""

    nodes: tuple[Any, ...]

    def get_nodes(self) -> Sequence[Any]:
        """As a node of the scheduler has it."""
        return self.nodes

    @property
    def group(self) -> Any:
        """That of a reduction among them, as for a fused node."""
        return max(self.nodes, key=lambda node: int(node.is_reduction())).group


def members_of(nodes: Iterable[Any], scheduled: Any) -> tuple[Any, ...]:
    """The scheduler nodes of a launch's IR nodes.

    The scheduler's current node, `scheduled`, is not enough: a C++ kernel collects nodes until it is full and is
    written only when the scheduler reaches the next node.
    """
    known = getattr(V.graph.scheduler, "name_to_node", {})
    names = [node.get_operation_name() for node in nodes if getattr(node, "operation_name", None)]
    found = dict.fromkeys(known[name] for name in names if name in known)
    return tuple(found) or (tuple(scheduled.get_nodes()) if scheduled is not None else ())


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
        for one in node.all_input_nodes
        if isinstance(value := one.meta.get("val"), torch.Tensor)
    ]
    largest = max(operands, key=lambda value: _elements(value.numel()) or 0, default=None)
    return None if largest is None else largest.dtype


def result_dtype(nodes: Iterable[Any]) -> torch.dtype | None:
    """The widest dtype among what library calls give: Inductor gives none to a call that may have several results."""
    dtypes = {
        value.dtype
        for node in _called(nodes)
        for value in _values(node.meta.get("val"))
        if isinstance(value, torch.Tensor)
    }
    return max(dtypes, key=lambda dtype: (dtype.is_floating_point, dtype.itemsize), default=None)


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
    return origins([node for node in nodes if is_extern(node) or is_template(node)])


def _computing(nodes: Iterable[Any]) -> list[torch.fx.Node]:
    return [node for node in _called(nodes) if countable_fx(node)]


def _flops(node: torch.fx.Node) -> int | None:
    try:
        count: Any = count_flops_fx(node)
    except Exception:  # noqa: BLE001 - it calls the operator on fake tensors, which raises what it likes
        return None
    known = None if count is None else _elements(count)
    return known if known is None or not _is_causal(node) else known // 2


def _is_causal(node: torch.fx.Node) -> bool:
    schema = getattr(node.target, "_schema", None)
    names = [argument.name for argument in schema.arguments] if schema is not None else []
    if _CAUSAL not in names:
        return False
    position = names.index(_CAUSAL)
    given = node.args[position] if position < len(node.args) else node.kwargs.get(_CAUSAL)
    return given is True


def _elements(count: Any) -> int | None:
    """The value of a number for the current inputs, without a guard; None if it depends on data."""
    if not isinstance(count, torch.SymInt):
        return operator.index(count)
    node: Any = count.node
    return int(node.hint) if node.has_hint() else None


def _values(value: Any) -> Sequence[Any]:
    return value if isinstance(value, (tuple, list)) else (value,)
