# ruff: noqa: SLF001 - Python's own frames
"""The memory of a launch: the tensors that are its arguments, and nothing else.

A kernel computes with invented addresses, a window of 2**48 bytes for each argument, so that an access shows which
argument it began at, however far it went. Invariant: `load`, `store` and the atomic operations are the only ways from
the interpreter to memory, and each of them passes on only lanes that are inside. The others are recorded, load 0 and
store nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from fuselight.adapters.torch_api.uninitialized import WrittenElements
from fuselight.adapters.triton_api.launches.access_history import AccessedElements, AccessHistory, ProgramRace
from fuselight.adapters.triton_api.launches.record import AccessFault, FaultKind, LaunchStopped
from fuselight.adapters.triton_api.launches.sectors import SECTOR

WINDOW = 48
"""Bits of an address inside of a window. Real addresses have 47 bits, so that they are in the window 0."""
_MIDDLE = 1 << (WINDOW - 1)
_PAGE = 4096
_MAX_FAULTS = 20
"""Maximum lines with faults that are recorded of a launch."""


@dataclass
class TensorMemory:
    """One tensor that is an argument, or is inside of one."""

    name: str
    address: int
    """Where the kernel sees its first element."""
    start: int
    """Where the kernel sees its storage."""
    real_start: int
    """Where the storage is."""
    size: int
    """Bytes of the storage."""
    item: int
    """Bytes of an element."""
    tensor: Any
    written: bool = False
    was_read: bool = False

    @property
    def elements(self) -> int:
        """How many it has from its first one on."""
        return (self.start + self.size - self.address) // self.item


class CheckedMemory:
    """In the place of the interpreter's native module, for one launch."""

    def __init__(
        self,
        native: Any,
        numpy: Any,
        files: Callable[[str], bool],
        expire: Callable[[], None],
    ) -> None:
        """`files(path)` says whether a frame of that file is the kernel's; `expire` raises after the deadline."""
        self._native, self._numpy, self._files, self._expire = native, numpy, files, expire
        self._regions: list[TensorMemory] = []
        self.faults: dict[tuple[str, str, int, str], AccessFault] = {}
        self.program = (0, 0, 0)
        self.history = AccessHistory(numpy, self._note_race)
        self._programs: list[tuple[int, int, int]] = []
        self._kind = "load"
        self._last: TensorMemory | None = None
        """The argument that all lanes of the last access are inside of."""
        self._noted: TensorMemory | None = None
        """The argument whose history gets the last access."""
        self.masked = True
        """Whether the access that comes next has a mask."""
        self.bounded_by: FaultKind = "bounds"
        """What an access outside would be: `descriptor` while a tensor descriptor is accessed."""
        self.atomics: dict[str, tuple[int, int]] = {}
        """By argument: the elements that atomic operations have changed, each time they did, and how many it has."""
        self.atomic_sectors = 0
        """32-byte sectors that they have changed, each time they did."""

    def __getattr__(self, name: str) -> Any:
        """Pass on the native module's enumerations. Any other function of it is a way to memory that is not checked."""
        if name in {"MEM_SEMANTIC", "RMW_OP"}:
            return getattr(self._native, name)
        raise LaunchStopped(f"this Triton's interpreter reaches memory by `{name}`, which is not checked")

    def add(self, name: str, tensor: Any) -> int:
        """Let the launch access the storage of `tensor`. Returns the address of its first element for the kernel."""
        storage = tensor.untyped_storage()
        real, address = int(storage.data_ptr()), int(tensor.data_ptr())
        offset = address - real if tensor.numel() else 0
        return self._add_region(name, tensor, size=int(storage.nbytes()), offset=offset, real=real)

    def _add_region(self, name: str, tensor: Any, *, size: int, offset: int, real: int = 0) -> int:
        """Add a storage of `size` bytes, whose tensor begins at the byte `offset` of it."""
        # Alignment is what the kernel may ask of an address.
        start = ((len(self._regions) + 1) << WINDOW) + _MIDDLE + real % _PAGE
        region = TensorMemory(name, start + offset, start, real, size, int(tensor.element_size()), tensor)
        self._regions.append(region)
        return region.address

    def regions(self) -> list[TensorMemory]:
        """The tensors of the launch, and how they were accessed."""
        return list(self._regions)

    def written(self) -> list[Any]:
        """The tensors that were written, or would have been."""
        return [region.tensor for region in self._regions if region.written]

    def written_names(self) -> frozenset[str]:
        """The arguments that were written, or would have been."""
        return frozenset(region.name for region in self._regions if region.written)

    def load(self, addresses: Any, mask: Any, other: Any, dtype: Any) -> Any:
        """Read the elements of which `mask` is true, else take those of `other`."""
        item = self._numpy.dtype(dtype).itemsize
        real, lanes = self._checked("load", addresses, mask, item)
        for region, at in self._touched(real, lanes):
            self.history.load(self._accessed(_selected(real, at), region, item))
        return self._native.load(real, lanes, other, dtype)

    def store(self, addresses: Any, values: Any, mask: Any) -> Any:
        """Write the elements of which `mask` is true."""
        item = values.dtype.itemsize
        real, lanes = self._checked("store", addresses, mask, item)
        self._note_store(real, lanes, values, item)
        return self._native.store(real, values, lanes)

    def atomic_rmw(self, operation: Any, addresses: Any, values: Any, mask: Any, order: Any) -> Any:
        """Change the elements of which `mask` is true, and return what they were."""
        real, lanes = self._checked("atomic", addresses, mask, values.dtype.itemsize)
        self._note_atomic(real, lanes, values.dtype.itemsize)
        return self._native.atomic_rmw(operation, real, values, lanes, order)

    def atomic_cas(self, addresses: Any, expected: Any, values: Any, order: Any) -> Any:
        """Exchange elements that are as expected, and return what they were."""
        # A lane cannot be left out of this operation.
        every = self._numpy.ones_like(addresses, dtype=bool)
        real, lanes = self._checked("atomic", addresses, every, values.dtype.itemsize)
        self._note_atomic(real, lanes, values.dtype.itemsize)
        if not lanes.all():
            return self._numpy.zeros_like(values)
        return self._native.atomic_cas(real, expected, values, order)

    def begin_program(self, place: tuple[int, int, int]) -> None:
        """Note that another program runs."""
        self.program = place
        self._programs.append(place)
        self.history.program, self.history.is_ordered = len(self._programs), False

    def written_elements(self) -> Iterator[WrittenElements]:
        """The elements that were written, of each argument of which some were."""
        for region in self._regions:
            if region.written:
                known = self.history.written(region.real_start)
                elements, item, place = known if known is not None else (None, region.item, ("", 0))
                yield WrittenElements(region.name, region.tensor, elements, item, place)

    def _note_store(self, real: Any, lanes: Any, values: Any, item: int) -> None:
        numpy = self._numpy
        for region, at in self._touched(real, lanes):
            addresses = _selected(real, at)
            every = numpy.ones(addresses.shape, dtype=bool)
            before = self._native.load(
                addresses, every, numpy.zeros(addresses.shape, values.dtype), values.dtype
            )
            self._kind, new = "store", _selected(numpy.broadcast_to(values, real.shape), at)
            self.history.store(self._accessed(addresses, region, item), new, before)
            self.history.place_of_store(region.real_start, self.place())

    def _note_atomic(self, real: Any, lanes: Any, item: int) -> None:
        for region, at in self._touched(real, lanes):
            addresses = _selected(real, at)
            self.history.atomic(self._accessed(addresses, region, item))
            changed, _ = self.atomics.get(region.name, (0, 0))
            self.atomics[region.name] = changed + int(addresses.size), max(1, region.size // item)
            self.atomic_sectors += int(self._numpy.unique(addresses // SECTOR).size)
            self.history.place_of_store(region.real_start, self.place())

    def _accessed(self, addresses: Any, region: TensorMemory, item: int) -> AccessedElements:
        numpy = self._numpy
        offsets = addresses - numpy.uint64(region.real_start)
        shift = item.bit_length() - 1  # sizes of elements are powers of two
        elements = (offsets >> numpy.uint64(shift)).view("int64")
        return AccessedElements(region.real_start, region.size, elements, item)

    def _touched(self, real: Any, lanes: Any) -> Iterator[tuple[TensorMemory, Any]]:
        """Each argument that lanes access, and these lanes."""
        if self._last is not None:
            self._noted = self._last
            if lanes.any():
                yield self._last, lanes
            return
        for region in self._regions:
            inside = lanes & (real >= self._numpy.uint64(region.real_start))
            inside &= real < self._numpy.uint64(region.real_start + region.size)
            if inside.any():
                lanes = lanes & ~inside
                self._noted = region
                yield region, inside

    def _note_race(self, race: ProgramRace) -> None:
        region = self._noted
        if region is None:
            return
        # A race has one line, that of the store, whichever access comes last here.
        program, other = self.program, self._programs[race.other - 1]
        path, line = self.place()
        if self._kind == "load":
            program, other = other, program
            known = self.history.written(region.real_start)
            path, line = known[2] if known is not None else (path, line)
        key = ("race", path, line, region.name)
        if not self._may_note(key):
            return
        offset = race.element - (region.address - region.start) // region.item
        where = ("store", path, line, region.name, offset, region.elements, self.masked, program)
        self.faults[key] = AccessFault(
            *where,
            kind="race",
            other_program=other,
            other_access="load" if self._kind == "load" else race.other_access,
            count=race.elements,
        )

    def _checked(self, access: str, addresses: Any, mask: Any, item: int) -> tuple[Any, Any]:
        """Return the real addresses, and the lanes whose access is inside of the arguments."""
        self._expire()
        self._kind, self._last = access, None
        numpy = self._numpy
        addresses = numpy.ascontiguousarray(addresses, dtype=numpy.uint64)
        lanes = numpy.array(numpy.broadcast_to(numpy.asarray(mask, dtype=bool), addresses.shape))
        real = numpy.zeros_like(addresses)
        live = addresses[lanes]
        if not live.size:
            return real, lanes
        first, last = int(live.min()), int(live.max())
        inside = self._region(first)
        if inside is not None and inside.start <= first and last + item <= inside.start + inside.size:
            self._note_use(access, inside)
            self._last = inside
            return numpy.where(lanes, self._moved(addresses, inside), real), lanes
        for window in numpy.unique(live >> numpy.uint64(WINDOW)).tolist():
            here = lanes & (addresses >> numpy.uint64(WINDOW) == numpy.uint64(window))
            region = self._in_window(int(window))
            if region is None:
                if window == 0:
                    raise LaunchStopped("it follows pointers that it has read from a tensor or computed")
                self._note_fault(access, int(addresses[here].min()), None)
                lanes &= ~here
                continue
            self._note_use(access, region)
            end = region.start + region.size - item
            good = here & (addresses >= numpy.uint64(region.start)) & (addresses <= numpy.uint64(max(end, 0)))
            if region.size < item:
                good[...] = False
            bad = here & ~good
            if bad.any():
                outside = addresses[bad]
                after = outside[outside > numpy.uint64(region.start)]
                self._note_fault(access, int((after if after.size else outside).min()), region)
                lanes &= ~bad
            real = numpy.where(good, self._moved(addresses, region), real)
        return real, lanes

    def _moved(self, addresses: Any, region: TensorMemory) -> Any:
        """The same places in the real memory. Unsigned numbers of 64 bits wrap as addresses do."""
        return addresses + self._numpy.uint64((region.real_start - region.start) % (1 << 64))

    def _region(self, address: int) -> TensorMemory | None:
        return self._in_window(address >> WINDOW)

    def _in_window(self, window: int) -> TensorMemory | None:
        return self._regions[window - 1] if 1 <= window <= len(self._regions) else None

    def _note_use(self, access: str, region: TensorMemory) -> None:
        region.written |= access != "load"
        region.was_read |= access != "store"

    def _note_fault(self, access: str, address: int, region: TensorMemory | None) -> None:
        path, line = self.place()
        name = "" if region is None else region.name
        key = (access, path, line, name)
        if not self._may_note(key):
            return
        offset = elements = 0
        if region is not None:
            offset = (address - region.address) // region.item
            elements = region.elements
        self.faults[key] = AccessFault(
            access, path, line, name, offset, elements, self.masked, self.program, kind=self.bounded_by
        )

    def last_argument(self) -> str:
        """The argument that all lanes of the last access are inside of; empty if there is none."""
        return self._last.name if self._last is not None else ""

    def note_left_out(self, place: tuple[str, int], argument: str, kind: str) -> None:
        """Note a maximum or minimum, at the line `place`, that counts what a load of `argument` has left out."""
        key = ("left out", *place, argument)
        if self._may_note(key):
            where = (kind, *place, argument, 0, 0, True, self.program)
            self.faults[key] = AccessFault(*where, kind="left out")

    def _may_note(self, key: tuple[str, str, int, str]) -> bool:
        return key not in self.faults and len(self.faults) < _MAX_FAULTS

    def place(self) -> tuple[str, int]:
        """The innermost line of the kernel, or of a function that it calls, outside of Triton."""
        frame = sys._getframe(1)
        while frame is not None:
            if self._files(frame.f_code.co_filename):
                return frame.f_code.co_filename, frame.f_lineno
            frame = frame.f_back  # type: ignore[assignment]
        return "", 0


def _selected(values: Any, lanes: Any) -> Any:
    """The values of which `lanes` is true, in a row. Most accesses have all of them, which takes no copy."""
    return values.ravel() if lanes.all() else values[lanes]
