# ruff: noqa: SLF001 - private names are this package's business
"""What AOTAutograd would save at each `activation_memory_budget`: every cut of a joint graph, without code for it.

Invariant: the graph itself is cut as it would be without this.
"""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch._dynamo
import torch._functorch.config
import torch._inductor.compile_fx
import torch.fx
from torch.utils import _pytree as pytree
from torch.utils.flop_counter import flop_registry

from fuselight.adapters.torch_api.patching import wrapped
from fuselight.adapters.virtual_gpu.partitioner import duplicated, storage_of
from fuselight.shared.devices.estimate import estimate
from fuselight.shared.report import Device

DEFAULT = 1.0
"""Torch's own budget."""


@dataclass
class BudgetCut:
    """The cuts of all graphs of a step at one budget."""

    budget: float
    saved_bytes: int = 0
    """Of what the forwards keep for the backwards, parameters and inputs aside."""
    recomputed: int = 0
    """Operators that the backwards compute again."""
    multiplications: int = 0
    """Of these, multiplications of matrices and attention."""
    us: float = 0.0
    """The estimated microseconds of these multiplications."""
    names: list[tuple[str, ...]] = field(default_factory=list)
    """Of what each graph saves: budgets with the same names have the same code."""


@contextlib.contextmanager
def listing_cuts(device: Device, budgets: Sequence[float]) -> Iterator[list[BudgetCut]]:
    """Inside, each joint graph is cut for every budget as well; yields the cuts, in the order of `budgets`."""
    cuts = [BudgetCut(budget) for budget in budgets]

    def partition(
        real: Callable[..., Any], joint: torch.fx.GraphModule, inputs: Any, *args: Any, **named: Any
    ) -> Any:
        outputs = int(named.get("num_fwd_outputs", args[0] if args else 0))
        for cut in cuts:
            with budget_of(cut.budget):
                forward, backward = real(copy.deepcopy(joint), inputs, *args, **named)
            _add_cut(cut, device, forward, backward, outputs)
        return real(joint, inputs, *args, **named)

    with wrapped(torch._inductor.compile_fx, "min_cut_rematerialization_partition", partition):
        yield cuts


def budget_of(budget: float) -> contextlib.AbstractContextManager[Any]:
    """Inside, torch cuts with this `activation_memory_budget`."""
    settings: Any = torch._functorch.config
    if not hasattr(settings, "activation_memory_budget"):  # torch 2.4 and earlier
        return contextlib.nullcontext()
    patch: contextlib.AbstractContextManager[Any] = settings.patch(activation_memory_budget=budget)
    return patch


def forget_compiled() -> None:
    """Have Dynamo compile again what it has compiled: a setting of the partition is no guard."""
    torch._dynamo.reset()


def _add_cut(
    cut: BudgetCut,
    device: Device,
    forward: torch.fx.GraphModule,
    backward: torch.fx.GraphModule,
    outputs: int,
) -> None:
    (output,) = forward.graph.find_nodes(op="output")
    saved = [node for node in output.args[0][outputs:] if isinstance(node, torch.fx.Node)]
    sizes = {
        key: size or 0
        for node in saved
        if node.op != "placeholder" and isinstance(node.meta.get("val"), torch.Tensor)
        for key, size in [storage_of(node.meta["val"])]
    }
    cut.saved_bytes += sum(sizes.values())
    cut.names.append(tuple(sorted(node.name for node in saved)))
    for node in duplicated(forward, backward):
        cut.recomputed += 1
        work = _work(node)
        if work:
            cut.multiplications += 1
            dtype = str(node.meta["val"].dtype) if isinstance(node.meta["val"], torch.Tensor) else None
            known = estimate(device, _bytes(node), work, dtype)
            cut.us += known[0] if known is not None else 0.0


def _work(node: torch.fx.Node) -> int:
    """The floating-point operations of a multiplication of matrices or an attention; 0 for others."""
    count = flop_registry.get(getattr(node.target, "overloadpacket", None))
    if count is None:
        return 0

    def value(item: Any) -> Any:
        return item.meta["val"] if isinstance(item, torch.fx.Node) else item

    args, kwargs = pytree.tree_map(value, (node.args, node.kwargs))
    try:
        return int(count(*args, **kwargs, out_val=node.meta["val"]))
    except Exception:  # noqa: BLE001 - torch's counters take some overloads only, and sizes may be symbols
        return 0


def _bytes(node: torch.fx.Node) -> int:
    """What an operator reads and writes."""
    values = pytree.tree_leaves([node.meta["val"], [item.meta.get("val") for item in node.all_input_nodes]])
    return sum(storage_of(value)[1] or 0 for value in values if isinstance(value, torch.Tensor))
