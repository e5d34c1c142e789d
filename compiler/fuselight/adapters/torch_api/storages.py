# ruff: noqa: SLF001 - private names are this package's business
"""Follows every storage from its allocation to its end, by a dispatch mode.

Invariant: no tensor is kept alive, and no value is read, so that fake, meta and real tensors are followed alike.
Lifetimes need no model: reference counts, `del`, reuse and autograd's release of saved tensors happen by themselves.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
from torch.utils._pytree import tree_leaves

from fuselight.adapters.torch_api.composite_operators import run_parts
from fuselight.adapters.torch_api.patching import patched

P = TypeVar("P")
"""What names the line of an allocation."""


@dataclass
class Storage(Generic[P]):
    """One storage, also after its end."""

    bytes: int
    """As the allocator rounds them."""
    phase: str
    place: P | None
    use: str = ""
    """What it is to the program; empty until that is known."""
    is_before: bool = False
    """Whether it existed before the mode was entered."""
    born: int = 0
    """The number of the operator that made it, from 1; 0 for what existed before."""
    died: int | None = None
    """The number of the first operator after its end."""
    address: int = 0
    """Of real tensors, if requested."""


class Moment(NamedTuple):
    """What is allocated after an operator has run."""

    number: int
    """Of the operator; 0 before all of them."""
    bytes: int
    inside: int
    """Bytes of these that the operator allocates itself."""
    phase: str
    operator: Any = ""
    place: Any = None
    """As `place_of()` returns it."""


class StorageTracker(TorchDispatchMode, Generic[P]):
    """While entered, records each new storage and the moment with the most bytes.

    `place_of()` returns the user's line of the operator that runs, `place_of_buffer()` that of the buffer that
    generated code makes, None if none runs; `rounding` is the allocator's granularity in bytes;
    `inside(operator, args, result)` gives the bytes that an operator allocates and frees itself, and
    `keep(operator, args, result)` makes storages of its result as large as the device has them. `addresses`: whether
    the addresses of tensors, which are real ones then, are kept.
    """

    supports_higher_order_operators = True

    def __init__(
        self,
        place_of: Callable[[], P | None],
        place_of_buffer: Callable[[], P | None] = lambda: None,
        *,
        rounding: int = 1,
        inside: Callable[[Any, tuple[Any, ...], Any], int] = lambda *_: 0,
        keep: Callable[[Any, tuple[Any, ...], Any], None] = lambda *_: None,
        addresses: bool = False,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.phase = ""
        self.allocated = 0
        """Bytes, now."""
        self.moments: list[Moment] = []
        """After each operator; the first one is before all of them."""
        self.every: list[Storage[P]] = []
        """What was allocated, also after its end."""
        self.operators: set[str] = set()
        """The names of those that ran, as `aten::mm`."""
        self.unfollowed: set[str] = set()
        """Kinds of tensors whose memory is not counted, as `torch.sparse_coo`."""
        self._place_of, self._place_of_buffer = place_of, place_of_buffer
        self._rounding, self._inside, self._keep, self._addresses = rounding, inside, keep, addresses
        self._operator = 0
        """The number of the last operator that ran."""
        self._alive: dict[int, tuple[Storage[P], weakref.ref[Any]]] = {}
        self._resizes: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        self._places: dict[int, P | None] = {}
        """Of the forward's operators, by autograd's sequence number."""

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Whether compiled code stays compiled under the mode: otherwise Dynamo runs it in eager mode, silently."""
        return True

    def __enter__(self) -> Any:
        """Also hear of storages that change their size, as those of FSDP's parameters do."""
        self._resizes = patched(torch.UntypedStorage, "resize_", self._hearing(torch.UntypedStorage.resize_))
        self._resizes.__enter__()
        return super().__enter__()  # type: ignore[no-untyped-call]

    def __exit__(self, *error: object) -> None:
        """As in TorchDispatchMode."""
        super().__exit__(*error)  # type: ignore[no-untyped-call]
        self._resizes.__exit__(None, None, None)

    def note(self, tensors: Iterable[torch.Tensor], use: str, place: P | None = None) -> None:
        """Follow tensors that exist already."""
        for tensor in parts_of(tensors):
            storage = self._add(tensor, place)
            if storage is not None:
                storage.use, storage.is_before = use, True

    def accept_buffer(self, tensor: torch.Tensor) -> None:
        """Follow a buffer that generated code has just made without an operator."""
        self._add(tensor, self._place_of_buffer())

    @property
    def peak(self) -> Moment:
        """The first moment with the most bytes."""
        now = Moment(0, self.allocated, 0, self.phase)
        return max(self.moments or [now], key=lambda moment: moment.bytes)

    def alive(self) -> list[Storage[P]]:
        """What is allocated now."""
        return [storage for storage, _ in self._alive.values() if storage.bytes]

    def alive_at(self, number: int) -> list[Storage[P]]:
        """What was allocated after an operator."""
        return [
            storage
            for storage in self.every
            if storage.bytes and storage.born <= number and (storage.died is None or number < storage.died)
        ]

    def storages_of(self, tensors: Iterable[torch.Tensor]) -> list[Storage[P]]:
        """What is followed of the tensors."""
        keys = {key for tensor in parts_of(tensors) if (key := storage_key(tensor)) is not None}
        return [self._alive[key][0] for key in keys if key in self._alive]

    def renewed(self, storage: Storage[P]) -> Storage[P]:
        """What stands for a storage from now on: what is noted of it does not change what it was to earlier moments."""
        now = replace(storage, born=self._operator + 1)
        for key, (known, reference) in self._alive.items():
            if known is storage:
                storage.died = self._operator + 1
                self._alive[key] = now, reference
                self.every.append(now)
                return now
        return storage

    def forget_lines(self) -> None:
        """Give no operator the line of an earlier one."""
        self._places.clear()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run an operator and follow its results; the operators of a tensor that is made of others come one by one."""
        if any(hasattr(kind, "__tensor_flatten__") for kind in types):
            return NotImplemented
        self._begin()
        parts = run_parts(self, func, args, kwargs)
        if parts is not NotImplemented:
            return parts
        result = func(*args, **(kwargs or {}))
        self._operator += 1
        node = torch._C._current_autograd_node()
        place = self._place(node)
        self.operators.add(str(getattr(getattr(func, "_schema", None), "name", func)))
        self._keep(func, args, result)
        for value in parts_of(tree_leaves(result)):
            self._add(value, place)
        inside = self._inside(func, args, result)
        phase = "backward" if node is not None else self.phase
        self.moments.append(Moment(self._operator, self.allocated + inside, inside, phase, func, place))
        return result

    def _begin(self) -> None:
        """Record the moment before the first operator."""
        if not self.moments:
            self.moments.append(Moment(0, self.allocated, 0, self.phase))

    def _place(self, node: Any) -> P | None:
        """The line of the operator that has just run, for `node` of autograd if it is one of a backward."""
        place = self._place_of_buffer()
        if place is not None:
            return place
        if node is not None:
            return self._places.get(node._sequence_nr())
        place, last = self._place_of(), _sequence_number() - 1
        # An operator that autograd does not record, as what starts a backward, finds the number of the last recorded
        # one: it must not take its line.
        if place is None:
            return self._places.get(last)
        self._places.setdefault(last, place)
        return place

    def _add(self, tensor: torch.Tensor, place: P | None) -> Storage[P] | None:
        key = storage_key(tensor)
        if key is None:
            self.unfollowed.add(_kind(tensor))
        if key is None or key in self._alive:
            return None
        untyped = tensor.untyped_storage()
        size = self._rounded(untyped.nbytes())
        if not size:
            return None
        storage = Storage(size, self.phase, place, born=self._operator)
        if self._addresses:
            storage.address = untyped.data_ptr()
        self.every.append(storage)
        self._alive[key] = storage, weakref.ref(untyped, lambda _: self._freed(key))
        self.allocated += size
        return storage

    def _hearing(self, resize: Callable[[Any, int], Any]) -> Callable[[Any, int], Any]:
        def resized(untyped: Any, size: int) -> Any:
            result = resize(untyped, size)
            key = int(untyped._cdata)
            known = self._alive.get(key)
            if known is not None:
                self._resize(key, *known, size)
            return result

        return resized

    def _resize(self, key: int, storage: Storage[P], reference: weakref.ref[Any], size: int) -> None:
        """End what a storage was, and begin what it is now."""
        storage.died = self._operator + 1
        now = replace(
            storage,
            bytes=self._rounded(size),
            phase=self.phase,
            is_before=False,
            born=self._operator,
            died=None,
        )
        self._alive[key] = now, reference
        self.every.append(now)
        self.allocated += now.bytes - storage.bytes

    def _rounded(self, size: int) -> int:
        return -(-size // self._rounding) * self._rounding

    def _freed(self, key: int) -> None:
        storage, _ = self._alive.pop(key)
        self.allocated -= storage.bytes
        storage.died = self._operator + 1


def parts_of(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    """The tensors among the values, and in place of one that is made of others, as a DTensor, its parts."""
    for value in values:
        if isinstance(value, torch.Tensor):
            if is_traceable_wrapper_subclass(value):
                names, _ = value.__tensor_flatten__()
                yield from parts_of(getattr(value, name) for name in names)
            else:
                yield value


def _sequence_number() -> int:
    """What autograd gives the next operator that it records."""
    autograd: Any = torch.autograd
    return int(autograd._get_sequence_nr())


def keyed(tensors: Iterable[torch.Tensor]) -> dict[int, torch.Tensor]:
    """One tensor of each storage, by what tells it from others that are alive."""
    parts = ((storage_key(part), part) for part in parts_of(tensors))
    return {key: part for key, part in parts if key is not None}


def bytes_of(tensors: Iterable[torch.Tensor]) -> int:
    """Bytes of the storages of the tensors, each once."""
    return sum(tensor.untyped_storage().nbytes() for tensor in keyed(tensors).values())


def storage_key(tensor: torch.Tensor) -> int | None:
    """What tells the storage of a tensor from others that are alive; None for a layout without one."""
    if tensor.layout is not torch.strided:
        return None
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):  # a subclass without memory of its own
        return None


def storage_address(value: Any) -> int:
    """The address of a plain tensor's memory; 0 for a tensor without any, and for what is not a plain tensor."""
    if type(value) not in (torch.Tensor, torch.nn.Parameter) or value.layout is not torch.strided:
        return 0
    return 0 if value.is_meta else int(value.untyped_storage().data_ptr())


def _kind(tensor: torch.Tensor) -> str:
    is_strided = tensor.layout is torch.strided
    return type(tensor).__name__ if is_strided else str(tensor.layout)
