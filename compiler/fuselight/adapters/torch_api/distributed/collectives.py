# ruff: noqa: SLF001 - private names are this package's business
"""Records each collective where all of them pass: at the operators of torch's namespace `c10d`.

Eager calls, functional collectives of a graph, hooks of FSDP2 and the reducer of DDP all end in these operators. Each
gets a kernel for CPU tensors that records the call, fills the results with values that this rank has, and returns
finished work, whose result is what a real backend gives: DDP reads it.
Invariant: no result is real, and each has the shape and the dtype of a real one.
Source: torch/csrc/distributed/c10d/Ops.cpp, torch/distributed/_local_tensor/_c10d.py.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class CollectiveCall:
    """One call of an operator of `c10d`."""

    kind: str
    group: tuple[int, ...]
    """Ranks of the world, ascending."""
    dtype: str
    shapes: tuple[tuple[int, ...], ...]
    """Of the tensors that this rank passes in; of a scatter, of those that it gets."""
    bytes: int
    """The whole buffer, as on the rank that has all of it."""
    is_async: bool
    peer: int | None = None
    """A rank of the world."""
    reduction: str = ""
    """`sum`, `max`, ...; empty if nothing is reduced."""
    group_name: str = ""
    """As torch names the process group: two groups of the same ranks have two names."""
    tag: int = 0
    """Of a send and a receive."""


Listener = Callable[[CollectiveCall], None]


@dataclass(frozen=True)
class _CollectiveOperator:
    """How to read and fill the arguments of one operator."""

    kind: str
    inputs: int
    """Index of the argument with the tensors that go in."""
    outputs: int
    """Index of the argument with the tensors that come out."""
    fill: Callable[[list[torch.Tensor], list[torch.Tensor], Any], None]
    returns: bool = True
    """Whether the operator returns its outputs besides the work."""
    group: int = -1
    """Index of the process group: after the tensors, if not given."""
    peer: int | None = None
    """Index of the rank, in its group, that is the root or the other side."""


_TAG = 3
"""Index of the tag in the arguments of a send and a receive."""
_REDUCING = frozenset({"all_reduce", "reduce", "reduce_scatter"})
"""Kinds whose argument after the process group says how they reduce."""


def _keep(_outputs: list[torch.Tensor], _inputs: list[torch.Tensor], _group: Any) -> None:
    """Leave what is there."""


def _fill_all(outputs: list[torch.Tensor], inputs: list[torch.Tensor], _group: Any) -> None:
    """Give every rank's part the values of this rank's."""
    if not inputs:
        return
    if len(outputs) == len(inputs):  # one tensor has the parts of all ranks
        for output, given in zip(outputs, inputs, strict=True):
            _copy_repeated(output, given.detach().clone())
        return
    for index, output in enumerate(outputs):
        _copy_repeated(output, inputs[index * len(inputs) // len(outputs)].detach().clone())


def _fill_zeros(outputs: list[torch.Tensor], _inputs: list[torch.Tensor], _group: Any) -> None:
    """Have what another rank would send be zeros, not whatever the memory holds."""
    for output in outputs:
        output.detach().zero_()


def _fill_part(outputs: list[torch.Tensor], inputs: list[torch.Tensor], group: Any) -> None:
    """Take this rank's part of what is scattered."""
    rank = group.rank()
    if not inputs:  # a scatter from another rank
        _fill_zeros(outputs, inputs, group)
        return
    for index, output in enumerate(outputs):
        if len(inputs) == len(outputs):
            flat = inputs[index].detach().reshape(-1)
            part = flat[rank * output.numel() : (rank + 1) * output.numel()]
            _copy_repeated(output, part.clone())
        else:
            _copy_repeated(output, inputs[min(rank, len(inputs) - 1)].detach().clone())


def _copy_repeated(output: torch.Tensor, given: torch.Tensor) -> None:
    """Fill a tensor of any size with values of another, again and again; zeros if it has none."""
    count, available = output.numel(), given.numel()
    if count == 0:
        return
    if available == 0:
        output.detach().zero_()
        return
    flat = given.reshape(-1).to(output.dtype)
    repeated = flat.repeat(-(-count // available))[:count] if count != available else flat
    output.detach().copy_(repeated.reshape(output.shape))


_OPERATORS: dict[str, _CollectiveOperator] = {
    "allreduce_": _CollectiveOperator("all_reduce", 0, 0, _keep, group=1),
    "allreduce_coalesced_": _CollectiveOperator("all_reduce", 0, 0, _keep, returns=False, group=1),
    "broadcast_": _CollectiveOperator("broadcast", 0, 0, _keep, group=1, peer=2),
    "reduce_": _CollectiveOperator("reduce", 0, 0, _keep, returns=False, group=1, peer=3),
    "allgather_": _CollectiveOperator("all_gather", 1, 0, _fill_all, group=2),
    "_allgather_base_": _CollectiveOperator("all_gather", 1, 0, _fill_all, group=2),
    "allgather_coalesced_": _CollectiveOperator("all_gather", 1, 0, _fill_all, returns=False, group=2),
    "allgather_into_tensor_coalesced_": _CollectiveOperator(
        "all_gather", 1, 0, _fill_all, returns=False, group=2
    ),
    "reduce_scatter_": _CollectiveOperator("reduce_scatter", 1, 0, _fill_part, group=2),
    "_reduce_scatter_base_": _CollectiveOperator("reduce_scatter", 1, 0, _fill_part, group=2),
    "reduce_scatter_tensor_coalesced_": _CollectiveOperator(
        "reduce_scatter", 1, 0, _fill_part, returns=False, group=2
    ),
    "alltoall_": _CollectiveOperator("all_to_all", 1, 0, _fill_all, group=2),
    "alltoall_base_": _CollectiveOperator("all_to_all", 1, 0, _fill_all, returns=False, group=2),
    "gather_": _CollectiveOperator("gather", 1, 0, _fill_all, returns=False, group=2, peer=3),
    "gather_into_tensor_": _CollectiveOperator(
        "gather", 1, 0, _fill_all, group=2, peer=3
    ),  # since torch 2.14
    "scatter_": _CollectiveOperator("scatter", 1, 0, _fill_part, group=2, peer=3),
    "send": _CollectiveOperator("send", 0, 0, _keep, returns=False, group=1, peer=2),
    "recv_": _CollectiveOperator("recv", 0, 0, _fill_zeros, returns=False, group=1, peer=2),
    "recv_any_source_": _CollectiveOperator("recv", 0, 0, _fill_zeros, returns=False, group=1),
    "barrier": _CollectiveOperator("barrier", 0, 0, _keep, returns=False, group=1),
}


def _flat(value: Any) -> list[torch.Tensor]:
    """All tensors of an argument."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in _flat(item)]
    return []


def _finished(result: list[torch.Tensor]) -> Any:
    """Work that is done, with a result."""
    c10d: Any = torch._C._distributed_c10d
    future: Any = torch.futures.Future()
    future.set_result(result)
    return c10d._create_work_from_future(future)


def _is_async(arguments: Sequence[Any], name: str) -> bool:
    """The argument `async_op`, the first bool after the process group; `send` and `recv` have none."""
    if name in {"send", "recv_", "recv_any_source_"}:
        return False
    return next((value for value in arguments if isinstance(value, bool)), True)


def _call(operator: _CollectiveOperator, name: str, arguments: Sequence[Any], group: Any) -> CollectiveCall:
    given, produced = _flat(arguments[operator.inputs]), _flat(arguments[operator.outputs])
    ranks = _ranks_of(group)
    peer = None
    if operator.peer is not None and operator.peer < len(arguments):
        index = int(arguments[operator.peer])
        peer = ranks[index] if 0 <= index < len(ranks) else None
    own, size = _own_part(operator.kind, given, produced, len(ranks))
    return CollectiveCall(
        operator.kind,
        tuple(sorted(ranks)),
        str(own[0].dtype).removeprefix("torch.") if own else "",
        tuple(tuple(map(int, tensor.shape)) for tensor in own),
        size,
        _is_async(arguments[operator.group + 1 :], name),
        peer,
        _reduction(arguments[operator.group + 1]) if operator.kind in _REDUCING else "",
        _name_of(group),
        int(arguments[_TAG]) if name in {"send", "recv_"} and len(arguments) > _TAG else 0,
    )


def _reduction(boxed: Any) -> str:
    c10d: Any = torch._C._distributed_c10d
    try:
        return str(c10d.ReduceOp.RedOpType(boxed.op()).name).lower()
    except (AttributeError, RuntimeError, TypeError, ValueError):  # a torch that boxes it in another way
        return ""


def _name_of(group: Any) -> str:
    try:
        return str(group.group_name)
    except (AttributeError, RuntimeError):  # a group that has no name yet, or no longer
        return ""


def _own_part(
    kind: str, given: list[torch.Tensor], produced: list[torch.Tensor], ranks: int
) -> tuple[list[torch.Tensor], int]:
    """The tensors that every rank has, the root too, and the bytes of the whole buffer."""
    if kind == "barrier":  # its tensor only chooses a device
        return [], 0
    if kind in {"gather", "scatter"}:  # the root alone has the parts of all ranks
        own = given if kind == "gather" else produced
        return own, _bytes(own) * ranks
    return given, max(_bytes(given), _bytes(produced))


def _bytes(tensors: list[torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


def _ranks_of(group: Any) -> tuple[int, ...]:
    """Ranks of the world, by their rank in the group."""
    import torch.distributed as dist  # noqa: PLC0415 - only in a world

    try:
        return tuple(dist.get_process_group_ranks(group))
    except (KeyError, RuntimeError, ValueError):  # a group that has no name yet, or no longer
        return tuple(range(group.size()))


def _kernel(name: str, operator: _CollectiveOperator, listener: Listener, *arguments: Any) -> Any:
    c10d: Any = torch._C._distributed_c10d
    group = c10d.ProcessGroup.unbox(arguments[operator.group])
    listener(_call(operator, name, arguments, group))
    outputs = _flat(arguments[operator.outputs])
    with torch.no_grad():
        operator.fill(outputs, _flat(arguments[operator.inputs]), group)
    work = _finished(outputs).boxed()
    return (arguments[operator.outputs], work) if operator.returns else work


@contextlib.contextmanager
def recorded(listener: Listener) -> Iterator[None]:
    """Within the block, no collective of CPU tensors communicates, and `listener` hears of each."""
    new_library: Any = torch.library.Library
    disable: Any = torch.compiler.disable
    library: Any = new_library("c10d", "IMPL")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that there was a kernel
        for name, operator in _OPERATORS.items():
            if torch._C._dispatch_has_kernel(f"c10d::{name}"):
                kernel = functools.partial(_kernel, name, operator, listener)
                # Eager code of a function that Dynamo skips calls it, and Dynamo would compile it there.
                library.impl(name, disable(kernel), "CPU")
    try:
        yield
    finally:
        library._destroy()
