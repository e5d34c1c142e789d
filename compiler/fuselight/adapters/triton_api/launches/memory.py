# ruff: noqa: SLF001 - Python's own frames
"""The memory of a launch: the tensors that are its arguments, and nothing else.

A kernel computes with invented addresses, a window of 2**48 bytes for each argument, so that an access shows which
argument it began at, however far it went. Invariant: `load`, `store` and the atomic operations are the only ways from
the interpreter to memory, and each of them passes on only lanes that are inside. The others are recorded, load 0 and
store nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fuselight.adapters.triton_api.launches.record import AccessFault, LaunchStopped

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
        self.masked = True
        """Whether the access that comes next has a mask."""

    def __getattr__(self, name: str) -> Any:
        """Pass on the native module's enumerations. Any other function of it is a way to memory that is not checked."""
        if name in {"MEM_SEMANTIC", "RMW_OP"}:
            return getattr(self._native, name)
        raise LaunchStopped(f"this Triton's interpreter reaches memory by `{name}`, which is not checked")

    def add(self, name: str, tensor: Any) -> int:
        """Let the launch access the storage of `tensor`. Returns the address of its first element for the kernel."""
        storage = tensor.untyped_storage()
        real, address = int(storage.data_ptr()), int(tensor.data_ptr())
        # Alignment is what the kernel may ask of an address.
        start = ((len(self._regions) + 1) << WINDOW) + _MIDDLE + real % _PAGE
        offset = address - real if tensor.numel() else 0
        region = TensorMemory(
            name, start + offset, start, real, int(storage.nbytes()), int(tensor.element_size()), tensor
        )
        self._regions.append(region)
        return region.address

    def written(self) -> list[Any]:
        """The tensors that were written, or would have been."""
        return [region.tensor for region in self._regions if region.written]

    def load(self, addresses: Any, mask: Any, other: Any, dtype: Any) -> Any:
        """Read the elements of which `mask` is true, else take those of `other`."""
        real, lanes = self._checked("load", addresses, mask, self._numpy.dtype(dtype).itemsize)
        return self._native.load(real, lanes, other, dtype)

    def store(self, addresses: Any, values: Any, mask: Any) -> Any:
        """Write the elements of which `mask` is true."""
        real, lanes = self._checked("store", addresses, mask, values.dtype.itemsize)
        return self._native.store(real, values, lanes)

    def atomic_rmw(self, operation: Any, addresses: Any, values: Any, mask: Any, order: Any) -> Any:
        """Change the elements of which `mask` is true, and return what they were."""
        real, lanes = self._checked("atomic", addresses, mask, values.dtype.itemsize)
        return self._native.atomic_rmw(operation, real, values, lanes, order)

    def atomic_cas(self, addresses: Any, expected: Any, values: Any, order: Any) -> Any:
        """Exchange elements that are as expected, and return what they were."""
        # A lane cannot be left out of this operation.
        every = self._numpy.ones_like(addresses, dtype=bool)
        real, lanes = self._checked("atomic", addresses, every, values.dtype.itemsize)
        if not lanes.all():
            return self._numpy.zeros_like(values)
        return self._native.atomic_cas(real, expected, values, order)

    def _checked(self, access: str, addresses: Any, mask: Any, item: int) -> tuple[Any, Any]:
        """Return the real addresses, and the lanes whose access is inside of the arguments."""
        self._expire()
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
        if access != "load":
            region.written = True

    def _note_fault(self, access: str, address: int, region: TensorMemory | None) -> None:
        path, line = self._place()
        name = "" if region is None else region.name
        key = (access, path, line, name)
        if key in self.faults or len(self.faults) >= _MAX_FAULTS:
            return
        offset = elements = 0
        if region is not None:
            offset = (address - region.address) // region.item
            elements = (region.start + region.size - region.address) // region.item
        self.faults[key] = AccessFault(access, path, line, name, offset, elements, self.masked, self.program)

    def _place(self) -> tuple[str, int]:
        """The innermost line of the kernel, or of a function that it calls, outside of Triton."""
        frame = sys._getframe(1)
        while frame is not None:
            if self._files(frame.f_code.co_filename):
                return frame.f_code.co_filename, frame.f_lineno
            frame = frame.f_back  # type: ignore[assignment]
        return "", 0
