"""The memory of a launch whose addresses are checked without values: nothing is read, nothing is written.

Invariant: what is reported is proved. An access whose address depends on memory is left open and said to be; so is one
outside of a tensor whose mask depends on memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fuselight.adapters.triton_api.launches.memory import WINDOW, CheckedMemory
from fuselight.adapters.triton_api.launches.record import AccessFault
from fuselight.adapters.triton_api.launches.sectors import SectorUse

FROM_MEMORY = "indices come from memory"
MASK_FROM_MEMORY = "the mask comes from memory"
_MAX_OPEN = 20
"""Maximum lines that are listed as open."""


class AddressMemory(CheckedMemory):
    """In the place of the interpreter's native module, for an address check."""

    def __init__(
        self, native: Any, numpy: Any, files: Callable[[str], bool], expire: Callable[[], None]
    ) -> None:
        """As of CheckedMemory."""
        super().__init__(native, numpy, files, expire)
        self.sectors = SectorUse(numpy)
        self.open: dict[tuple[str, int, str], None] = {}
        self._address_is_unknown = self._mask_is_unknown = False
        self._exact: Any = None

    def describe(self, *, address_is_unknown: bool, mask_is_unknown: bool, exact: Any) -> None:
        """Take the facts of the access that comes next. `exact`: its addresses without overflow, if they differ."""
        self._address_is_unknown, self._mask_is_unknown = address_is_unknown, mask_is_unknown
        self._exact = exact

    def add(self, name: str, tensor: Any) -> int:
        """Let the launch access the storage of `tensor`, which may have no memory."""
        size, item = int(tensor.untyped_storage().nbytes()), int(tensor.element_size())
        offset = int(tensor.storage_offset()) * item if tensor.numel() else 0
        return self._add_region(name, tensor, size=size, offset=offset)

    def load(self, addresses: Any, mask: Any, other: Any, dtype: Any) -> Any:
        """Zeros, which the caller marks as unknown."""
        del other  # no element is known
        self._access("load", addresses, mask, self._numpy.dtype(dtype).itemsize)
        return self._numpy.zeros(self._numpy.shape(addresses), dtype)

    def store(self, addresses: Any, values: Any, mask: Any) -> None:
        """Nothing is written."""
        self._access("store", addresses, mask, values.dtype.itemsize)

    def atomic_rmw(self, operation: Any, addresses: Any, values: Any, mask: Any, order: Any) -> Any:
        """Zeros, as of a load."""
        del operation, order
        self._access("atomic", addresses, mask, values.dtype.itemsize)
        return self._numpy.zeros_like(values)

    def atomic_cas(self, addresses: Any, expected: Any, values: Any, order: Any) -> Any:
        """Zeros, as of a load."""
        del expected, order
        every = self._numpy.ones(self._numpy.shape(addresses), dtype=bool)
        self._access("atomic", addresses, every, values.dtype.itemsize)
        return self._numpy.zeros_like(values)

    def end_program(self) -> None:
        """Count what the program that has run used of the sectors that it fetched."""
        self.sectors.end_program(self.program)

    def note_open(self, reason: str) -> None:
        """Say that the line that runs now is not checked."""
        path, line = self.place()
        if len(self.open) < _MAX_OPEN:
            self.open.setdefault((path, line, reason))

    def _access(self, access: str, addresses: Any, mask: Any, item: int) -> None:
        self._expire()
        if self._address_is_unknown:
            self.note_open(FROM_MEMORY)
            return
        numpy = self._numpy
        addresses = numpy.ascontiguousarray(addresses, dtype=numpy.uint64)
        lanes = numpy.array(numpy.broadcast_to(numpy.asarray(mask, dtype=bool), addresses.shape))
        if self._mask_is_unknown:
            if self._leaves(addresses, item):
                self.note_open(MASK_FROM_MEMORY)
            return
        if self._exact is not None:
            lanes = self._without_overflow(access, addresses, lanes)
        self._checked(access, addresses, lanes, item)
        live = addresses[lanes]
        if live.size > 1:
            region = self._region(int(live[0]))
            if region is not None:
                self.sectors.note((access, *self.place(), region.name), live, item)

    def _leaves(self, addresses: Any, item: int) -> bool:
        """Whether an address is outside of the argument, or may be at another place than meant."""
        first, last = int(addresses.min()), int(addresses.max())
        region = self._region(first)
        inside = region is not None and (
            region.start <= first and last + item <= region.start + region.size and self._exact is None
        )
        return not inside

    def _without_overflow(self, access: str, addresses: Any, lanes: Any) -> Any:
        """The lanes whose address is the one that is meant. The first of the others is a fault."""
        numpy = self._numpy
        wrong = lanes & (addresses.astype(numpy.int64) != self._exact)
        if not wrong.any():
            return lanes
        at = int(numpy.argmax(wrong))
        meant, taken = int(self._exact.ravel()[at]), int(addresses.ravel()[at])
        region = self._in_window(meant >> WINDOW)
        path, line = self.place()
        key = ("overflow", path, line, "" if region is None else region.name)
        if region is not None and self._may_note(key):
            offset, exact = ((place - region.address) // region.item for place in (taken, meant))
            where = (access, path, line, region.name, offset, region.elements, self.masked, self.program)
            self.faults[key] = AccessFault(*where, kind="overflow", exact=exact)
        return lanes & ~wrong
