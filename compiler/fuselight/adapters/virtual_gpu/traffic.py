# ruff: noqa: SLF001 - private names are this package's business
"""The bytes that a launch moves, as Inductor's scheduler knows its accesses.

Invariant: sizes are those of the inputs that the graph was generated for (hints if a size is symbolic). Unknown values
are None. A tensor that a Triton kernel of the user's only writes is not counted as read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
import torch._inductor.ir
from torch._inductor.utils import get_dtype_size
from torch._inductor.virtualized import V
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from fuselight.adapters.torch_api.inductor.size_hints import lowered_hint


def traffic(members: Sequence[Any]) -> tuple[int | None, int | None] | None:
    """Bytes that a kernel reads and writes of device memory, each buffer once.

    One of the two is None if its size depends on data; the result is None if nothing is known.
    """
    if not members:
        return None
    written = {dep.name for member in members for dep in member.read_writes.writes}
    reads: dict[str, int | None] = {}
    writes: dict[str, int | None] = {}
    for member in members:
        of_own_kernel = _read_by_own_kernel(member)
        for dep in member.read_writes.reads:
            name = _mutated(member, dep.name)
            if dep.name not in written and (of_own_kernel is None or name in of_own_kernel):
                _count(reads, dep.name, _bytes(member, dep, name))
        for dep in member.read_writes.writes:
            if of_own_kernel is not None:  # it stores what nobody uses as well
                _count(writes, dep.name, _bytes(member, dep, _mutated(member, dep.name)))
            elif _is_used_outside(member, dep.name, members):
                _count(writes, dep.name, _bytes(member, dep, dep.name))
    return _sum(reads.values()), _sum(writes.values())


def _mutated(member: Any, name: str) -> str:
    """The buffer whose memory `name` is: a buffer that an operator writes to has a new name after that."""
    names: dict[str, str] = getattr(member.scheduler, "mutation_real_name", {})
    seen = set()
    while name in names and name not in seen:
        seen.add(name)
        name = names[name]
    return name


def _read_by_own_kernel(member: Any) -> set[str] | None:
    """The buffers that a Triton kernel of the user's reads; None for another node of the scheduler.

    Inductor also lists what the kernel only writes, and what has to be done before it.
    """
    node = getattr(member, "node", None)
    if not isinstance(node, torch._inductor.ir.UserDefinedTritonKernel):
        return None
    arguments = {name: of.get_name() for name, of in node.kwargs.items() if hasattr(of, "get_name")}
    accesses = getattr(getattr(node, "arg_accesses", None), "read_writes", None)  # of torch 2.13 and newer
    if accesses is None:
        return {*arguments.values()} - {argument.get_name() for argument in node.mutable_args}
    return {arguments[dep.name] for dep in accesses.reads if dep.name in arguments}


def _count(elements: dict[str, int | None], name: str, size: int | None) -> None:
    """Take the larger of two accesses to one buffer."""
    before = elements.get(name, 0)
    elements[name] = None if size is None or before is None else max(size, before)


def _sum(sizes: Iterable[int | None]) -> int | None:
    total = 0
    for size in sizes:
        if size is None:
            return None
        total += size
    return total


def _bytes(member: Any, dep: Any, name: str) -> int | None:
    """Bytes of one access to the buffer `name`: no more than it has, and no more than the loop touches.

    None: it depends on data.
    """
    buffer: Any = V.graph.name_to_buffer.get(name)
    if buffer is None:
        buffer = V.graph.graph_inputs.get(name)
    if buffer is None:
        constant = V.graph.constants.get(name)
        return 0 if constant is None else constant.numel() * constant.element_size()
    try:
        size, dtype = buffer.get_size(), buffer.get_dtype()
    except (
        AttributeError,
        NotImplementedError,
        AssertionError,
    ):  # several outputs: each is read by its own name
        return _outputs_bytes(buffer)
    whole = _known(size)
    touched = whole
    if hasattr(dep, "size") and not getattr(member, "is_extern", lambda: False)():
        touched = _known(dep.size) or whole
    known = [count for count in (whole, touched) if count is not None]
    return min(known) * int(get_dtype_size(dtype)) if known else None


def _outputs_bytes(buffer: Any) -> int | None:
    sizes: list[int | None] = []
    for output in getattr(buffer, "outputs", None) or ():
        try:
            count, each = _known(output.get_size()), int(get_dtype_size(output.get_dtype()))
        except (AttributeError, NotImplementedError, AssertionError):
            continue
        sizes.append(None if count is None else count * each)
    return _sum(sizes)


def _known(sizes: Iterable[Any]) -> int | None:
    """A number of elements; None where it depends on data, for which Inductor's hint would be a made-up number."""
    every = list(sizes)
    return None if free_unbacked_symbols(every) else lowered_hint(every)


def _is_used_outside(member: Any, name: str, members: Sequence[Any]) -> bool:
    buffer = member.scheduler.name_to_buf.get(name)
    if buffer is None:
        return True
    inside = set(members)
    return any(user.node not in inside for user in buffer.users)
