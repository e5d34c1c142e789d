# ruff: noqa: SLF001 - private names are this package's business
"""Private names of torch for what operators become: the ATen graph of a captured one, and the tables of decompositions.

Not imported with the rest of torch_api: Inductor's tables take most of a second. Invariant: only fake tensors are
computed with, and no guard is put on a symbolic size.
"""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch._decomp
import torch._dynamo.backends.common
import torch._functorch.config
import torch._inductor.decomposition
import torch._inductor.lowering
import torch._prims
import torch._refs
import torch.fx
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch._functorch.partitioners import default_partition
from torch._guards import detect_fake_mode
from torch._ops import HigherOrderOperator, OpOverload
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from fuselight.shared.report import is_library_call

Table = Mapping[Any, Callable[..., Any]]


def read_aten_graph(
    gm: torch.fx.GraphModule, inputs: Sequence[Any], read: Callable[[torch.fx.GraphModule], None]
) -> None:
    """Call `read` with what AOTAutograd makes of a graph before anything is decomposed: forward and backward in one.

    Raises what torch raises, and `read`.
    """

    def partition(joint: torch.fx.GraphModule, joint_inputs: Any, **named: Any) -> Any:
        read(joint)  # now: to cut a graph changes it
        return default_partition(joint, joint_inputs, **named)

    def inference(module: torch.fx.GraphModule, _inputs: Any) -> Any:
        read(module)
        return make_boxed_func(module.forward)

    backend = torch._dynamo.backends.common.aot_autograd(
        fw_compiler=lambda module, _inputs: make_boxed_func(module.forward),
        inference_compiler=inference,
        partition_fn=partition,
        decompositions={},
    )
    with torch._functorch.config.patch(enable_autograd_cache=False):
        backend(copy.deepcopy(gm), inputs)


def operators(module: torch.fx.GraphModule) -> Iterator[torch.fx.Node]:
    """The nodes of an ATen graph, and of the graphs inside it, that are operators on tensors."""
    for part in module.modules():
        if isinstance(part, torch.fx.GraphModule):
            for node in part.graph.nodes:
                if isinstance(node.target, (HigherOrderOperator, OpOverload)) and _makes_tensors(node.target):
                    yield node


def is_backward(node: torch.fx.Node) -> bool:
    """Whether a node of a joint graph is autograd's."""
    return node.meta.get("partitioner_tag") == "is_backward" or bool(node.meta.get("autograd_backward"))


def source_call(node: torch.fx.Node) -> tuple[str, ...]:
    """The name of the node of Dynamo's graph that a node belongs to, after those of the nodes that contain it.

    The same for nodes of Dynamo's own. A backward node belongs where its forward node does. Empty where torch keeps
    none.
    """
    stack = node.meta.get("source_fn_stack") or node.meta.get("fwd_source_fn_stack") or ()
    return tuple(str(name) for name, _ in stack)


def operator_name(target: Any) -> str:
    """`aten.addmm.default`; a higher-order operator by its bare name."""
    return str(target)


def inductor_table() -> Table:
    """What Inductor decomposes before it lowers."""
    table: Table = torch._inductor.decomposition.select_decomp_table()
    return table


@functools.cache
def core_table() -> Table:
    """What takes ATen to core ATen."""
    table: Any = torch._decomp.core_aten_decompositions()
    return dict(table.items())  # itself it is a mapping whose `get` knows nothing


def prims_table() -> Table:
    """Every decomposition of torch: only prims and operators without a decomposition remain."""
    return torch._decomp.decomposition_table


def is_core(operator: Any) -> bool:
    """Whether torch counts an operator as core ATen."""
    return torch.Tag.core in getattr(operator, "tags", ())


def is_prim(operator: Any) -> bool:
    """Whether an operator is one of PrimTorch's."""
    return getattr(operator, "namespace", "") == "prims"


def has_lowering(operator: Any) -> bool:
    """Whether Inductor generates code for an operator, or calls the library that it is meant for."""
    return is_library_call(operator_name(operator)) or not falls_back(operator)


def falls_back(operator: Any) -> bool:
    """Whether Inductor has no lowering for an operator and calls ATen's kernel."""
    lowering = torch._inductor.lowering.lowerings.get(operator)
    return lowering is None or getattr(lowering, "_is_fallback_handler", False)


def is_known(name: str) -> bool:
    """Whether this torch has an operator of that name, with or without its overload."""
    namespace: Any = torch.ops
    for part in name.split("."):
        try:
            namespace = getattr(namespace, part)
        except (AttributeError, RuntimeError):
            return False
    return namespace is not torch.ops


@dataclass(eq=False)
class _Recording(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes down the operators that are computed, where each in `table` is replaced by what it decomposes into.

    What `has` knows is neither decomposed nor written down, and what `further` takes wholly to that is not either.
    """

    table: Table
    has: Callable[[Any], bool] | None = None
    further: Table | None = None
    operators: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.namespace == "prim":  # asks a tensor for its device
            return func(*args, **kwargs)
        if self.has is None or not self.has(func):
            outputs = self._decomposed(func, args, kwargs)
            if outputs is not NotImplemented:
                return outputs
            if _makes_tensors(func) and not self._put_together(func, args, kwargs):
                self.operators.append(func)
        return func(*args, **kwargs)

    def _put_together(self, func: Any, args: Any, kwargs: Any) -> bool:
        if self.further is None:
            return False
        recording = _Recording(self.further, self.has)
        with recording:
            func(*args, **kwargs)
        return not recording.operators

    def _decomposed(self, func: Any, args: Any, kwargs: Any) -> Any:
        known = len(self.operators)
        decomposition = self.table.get(func)
        with self:
            outputs = NotImplemented if decomposition is None else decomposition(*args, **kwargs)
            if outputs is NotImplemented and isinstance(func, OpOverload):
                outputs = func.decompose(*args, **kwargs)
        if outputs is NotImplemented:
            del self.operators[known:]
        return outputs


def decomposed(
    node: torch.fx.Node,
    table: Table,
    has: Callable[[Any], bool] | None = None,
    further: Table | None = None,
) -> tuple[Any, ...]:
    """What the operator of a node becomes by `table`, less what `has` knows or `further` makes of what it knows.

    Raises what the decomposition raises.
    """
    if not isinstance(node.target, OpOverload):
        return () if has is not None and has(node.target) else (node.target,)
    values: tuple[Any, Any] = torch.fx.map_arg((node.args, node.kwargs), lambda node: node.meta["val"])
    args, kwargs = values
    fake = detect_fake_mode([*pytree.tree_leaves(values), *pytree.tree_leaves(node.meta.get("val"))])
    recording = _Recording(table, has, further)
    with contextlib.ExitStack() as stack:
        if fake is not None:
            stack.enter_context(fake)
            if fake.shape_env is not None:
                stack.enter_context(fake.shape_env.suppress_guards())
                stack.enter_context(fake.shape_env.ignore_fresh_unbacked_symbols())
        stack.enter_context(torch.no_grad())
        stack.enter_context(recording)
        node.target(*args, **kwargs)
    return tuple(recording.operators)


def signature(node: torch.fx.Node) -> str:
    """Equal for two nodes that decompose equally: the operator and its arguments, tensors by their metadata."""
    values = torch.fx.map_arg((node.args, node.kwargs), lambda node: node.meta.get("val"))
    return f"{node.target}{pytree.tree_map(_described, values)}"


def _described(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        strides = tuple(value.stride()) if value.layout is torch.strided else ()
        return f"{value.dtype}{tuple(value.shape)}{strides}{value.device}{value.layout}"
    return repr(value)


def _makes_tensors(operator: Any) -> bool:
    """Whether something is computed, and not only a size looked up or a condition held."""
    return not isinstance(operator, OpOverload) or any(
        "Tensor" in str(argument.type) for argument in operator._schema.returns
    )
