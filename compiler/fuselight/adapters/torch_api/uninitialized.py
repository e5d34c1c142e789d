"""Memory that a program allocates without values (`torch.empty`), and what of it is used though nobody has written it.

Invariant: an element counts as written as soon as anything but a load might have written it, and as used only where an
operator computes with it or the call returns it: copies and views of memory without values are usual.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch.utils._python_dispatch import TorchDispatchMode

_ALLOCATIONS = frozenset(
    {"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted"}
)
_COPIES = frozenset(
    {
        "clone",
        "_to_copy",
        "contiguous",
        "cat",
        "stack",
        "copy_",
        "constant_pad_nd",
        "index",
        "index_select",
        "is_same_size",
    }
)


class WrittenElements(NamedTuple):
    """What a launch has written of an argument."""

    name: str
    tensor: Any
    elements: Any
    """Of the argument's storage, a NumPy array of bools; None: unknown."""
    item: int
    """Bytes of an element."""
    place: tuple[str, int]
    """File and line of a store."""


class Unwritten(NamedTuple):
    """Elements that are used after a launch that was to write them."""

    launch: Any
    """As given to `note_launch`."""
    place: tuple[str, int]
    """The line of a store of it."""
    name: str
    """The argument."""
    first: int
    """In elements from the argument's first one."""
    missing: int
    """How many."""
    elements: int
    """Of the argument."""


@dataclass
class _Allocation:
    written: Any
    """By element of the storage, a bool tensor."""
    item: int
    launches: list[tuple[Any, str, tuple[str, int], int]] = field(default_factory=list)
    """Launches that wrote into it: launch, argument, line, and the offset of the argument."""
    storage: Any = None
    """Kept, so that no other tensor gets the address."""


class UninitializedMemory(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Follows allocations without values while it is entered."""

    def __init__(self, on_unwritten: Callable[[Unwritten], None]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._on_unwritten = on_unwritten
        self._allocations: dict[int, _Allocation] = {}
        self.last_launch: Any = None
        """As given to `note_launch`."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Note what an operator allocates, writes and uses."""
        del types
        kwargs = kwargs or {}
        name = func._schema.name.partition("::")[2]  # noqa: SLF001 - the operator's own text
        if self._allocations and name not in _ALLOCATIONS:
            self._note_operands(func, name, args, kwargs)
        result = func(*args, **kwargs)
        if name in _ALLOCATIONS and isinstance(result, torch.Tensor):
            self._note_allocation(result)
        return result

    def note_launch(self, launch: Any, written: WrittenElements) -> None:
        """Take what a launch has written of an argument."""
        self.last_launch = launch
        allocation = self._of(written.tensor)
        if allocation is None:
            return
        elements = written.elements
        if elements is None or written.item != allocation.item or len(elements) != len(allocation.written):
            self._forget(written.tensor)
            return
        allocation.written |= torch.from_numpy(elements)
        offset = int(written.tensor.storage_offset())
        allocation.launches.append((launch, written.name, written.place, offset))

    def note_use(self, tensor: torch.Tensor) -> None:
        """Note that the elements of a tensor are used: those without values are reported, once."""
        allocation = self._of(tensor)
        if allocation is None or not allocation.launches or tensor.element_size() != allocation.item:
            return
        seen = allocation.written.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
        missing = int(seen.numel() - int(seen.sum()))
        if not missing:
            return
        places = torch.arange(len(allocation.written)).as_strided(
            tensor.shape, tensor.stride(), tensor.storage_offset()
        )
        first = int(places[~seen].min())
        launch, argument, place, offset = allocation.launches[-1]
        elements = len(allocation.written) - offset
        self._forget(tensor)
        if first >= offset:
            self._on_unwritten(Unwritten(launch, place, argument, first - offset, missing, elements))

    def _note_operands(self, func: Any, name: str, args: Any, kwargs: Any) -> None:
        arguments = func._schema.arguments  # noqa: SLF001 - as above
        for at, argument in enumerate(arguments):
            value = args[at] if at < len(args) else kwargs.get(argument.name)
            for tensor in value if isinstance(value, (list, tuple)) else (value,):
                if not isinstance(tensor, torch.Tensor) or self._of(tensor) is None:
                    continue
                alias = argument.alias_info
                if alias is not None and alias.is_write:
                    self._forget(tensor)
                elif alias is None and name not in _COPIES:
                    self.note_use(tensor)

    def _note_allocation(self, tensor: torch.Tensor) -> None:
        if tensor.device.type != "cpu" or type(tensor) is not torch.Tensor or not tensor.numel():
            return
        storage = tensor.untyped_storage()
        count = storage.nbytes() // tensor.element_size()
        self._allocations[storage.data_ptr()] = _Allocation(
            torch.zeros(count, dtype=torch.bool), tensor.element_size(), storage=storage
        )

    def _of(self, tensor: Any) -> _Allocation | None:
        if not self._allocations or tensor.device.type != "cpu" or type(tensor) not in _PLAIN:
            return None
        return self._allocations.get(tensor.untyped_storage().data_ptr())

    def _forget(self, tensor: Any) -> None:
        self._allocations.pop(tensor.untyped_storage().data_ptr(), None)


_PLAIN = (torch.Tensor, torch.nn.Parameter)
