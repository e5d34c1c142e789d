# ruff: noqa: SLF001 - private names are this package's business
"""How AOTAutograd partitions a joint graph: what is saved between the parts, and what both compute.

Invariant: watching does not change the partition. Sizes are hints, and reading one adds no guard.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch._inductor.compile_fx
import torch.fx

from fuselight.adapters.torch_api.inductor.size_hints import size_hint
from fuselight.adapters.torch_api.patching import wrapped

_MOVE = torch.ops.prims.device_put.default
_FREE = torch.ops.aten.lift_fresh_copy.default
"""Of this operator torch never saves the result."""
_MOVED = "fuselight_moved"


@contextlib.contextmanager
def watching_partition(
    tell: Callable[[str, torch.fx.GraphModule, torch.fx.GraphModule, int], None],
    broke: Callable[[str, Exception], None],
) -> Iterator[None]:
    """Inside, `tell(joint, forward, backward, outputs)` is called at each cut.

    `joint` is the text of what was cut; after `outputs` outputs, `forward` returns what it saves.
    """

    def partition(
        real: Callable[..., Any], joint: torch.fx.GraphModule, inputs: Any, *args: Any, **named: Any
    ) -> Any:
        text = ""
        try:
            text = str(joint.graph.python_code("self").src).strip()  # now: to cut a graph changes it
        except Exception as error:  # noqa: BLE001 - an observer must not change what it observes
            broke("joint graph", error)
        forward, backward = real(joint, inputs, *args, **named)
        try:
            tell(text, forward, backward, int(named.get("num_fwd_outputs", args[0] if args else 0)))
        except Exception as error:  # noqa: BLE001 - as above
            broke("partition", error)
        return forward, backward

    with wrapped(torch._inductor.compile_fx, "min_cut_rematerialization_partition", partition):
        yield


def cut_with_free_constants(
    real: Callable[..., Any], joint: torch.fx.GraphModule, *args: Any, **named: Any
) -> tuple[torch.fx.GraphModule, torch.fx.GraphModule]:
    """Cut a joint graph in whose place, on the device, its small constants would already be there.

    `retarget` moves such a constant by an operator that torch would save for backward. On the device both parts read
    the constant itself.
    """
    for node in joint.graph.find_nodes(op="call_function", target=_MOVE):
        if isinstance(node.args[0], torch.fx.Node) and node.args[0].op == "get_attr":
            node.meta[_MOVED] = node.args
            node.target, node.args = _FREE, node.args[:1]
    parts = real(joint, *args, **named)
    for part in parts:
        for node in part.graph.find_nodes(op="call_function", target=_FREE):
            if _MOVED in node.meta:
                node.target, node.args = _MOVE, (*node.args, *node.meta.pop(_MOVED)[1:])
        part.recompile()
    return parts[0], parts[1]


def duplicated(forward: torch.fx.GraphModule, backward: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """The nodes that both parts of a cut compute, as they stand in the second one; views are free, and left out."""
    first = {node.name for node in forward.graph.nodes if node.op == "call_function"}
    return [
        node
        for node in backward.graph.nodes
        if node.op == "call_function" and node.name in first and not _is_free(node)
    ]


def real_inputs(gm: torch.fx.GraphModule) -> list[Any]:
    """The tensors with which a graph of Dynamo's was captured, by position; None where torch keeps none."""
    placeholders = gm.graph.find_nodes(op="placeholder")
    return [getattr(node.meta.get("grapharg"), "example", None) for node in placeholders]


def made_by_autograd(tensor: torch.Tensor) -> bool:
    """Whether a tensor is the result of an operator that autograd has recorded, and no view of a leaf."""
    base = tensor._base if tensor._is_view() else tensor
    return base is not None and base.grad_fn is not None


def storage_of(value: torch.Tensor) -> tuple[int, int | None]:
    """Which storage a tensor, fake or real, lies in, and its bytes; None where they depend on data."""
    storage = value.untyped_storage()
    return storage._cdata, size_hint(storage.nbytes())


def _is_free(node: torch.fx.Node) -> bool:
    """Whether a node computes no tensor: it takes one of several results, looks at one otherwise, or is a size."""
    if node.target is operator.getitem or not isinstance(node.meta.get("val"), (torch.Tensor, tuple, list)):
        return True
    schema = getattr(node.target, "_schema", None)
    returns = () if schema is None else schema.returns
    return bool(returns) and all(value.alias_info is not None for value in returns)
