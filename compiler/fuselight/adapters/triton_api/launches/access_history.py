"""Which program of a launch has read and written which element: how races are proved.

Programs run one after the other here, and in any order on a GPU. Two programs that store different values to an
element race, and so do two of which one reads what the other changes. Invariant: what is reported depends on values
that the run has computed; equal values, and whatever a program does after an atomic operation, which may order it, are
not a race.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

MAX_ELEMENTS = 1 << 22
"""Elements of all tensors of a launch whose accesses are kept; those of further tensors are not."""


class ProgramRace(NamedTuple):
    """Programs that access elements in no order."""

    element: int
    """The first one, counted from the start of the storage."""
    other: int
    """The number of the other program."""
    other_access: str
    elements: int
    """How many."""


class AccessedElements(NamedTuple):
    """The elements of a storage that one access reaches."""

    start: int
    """Where the storage is."""
    size: int
    """Its bytes."""
    elements: Any
    """Numbers of the elements, from the start of the storage."""
    item: int
    """Bytes of an element."""


@dataclass
class _Elements:
    """What has happened to each element of a storage."""

    item: int
    writer: Any
    """The last program that stored, as its number from 1 on; 0: none."""
    changed: Any
    """Whether a store changed the value."""
    reader: Any
    """The first program that loaded."""
    is_written: bool = False
    """Whether anything has stored."""
    last_store: tuple[str, int] = ("", 0)


class AccessHistory:
    """The accesses of a launch, by storage."""

    def __init__(self, numpy: Any, races: Callable[[ProgramRace], None]) -> None:
        """`races` is called for each access that races, with the first element."""
        self._numpy, self._races = numpy, races
        self._storages: dict[int, _Elements | None] = {}
        self._count = 0
        self.program = 1
        """The number of the program that runs, from 1 on."""
        self.is_ordered = False
        """Whether the program has made an atomic operation: others may wait for it, or it for others."""

    def store(self, accessed: AccessedElements, values: Any, before: Any) -> None:
        """Note a store of `values`, where `before` is now."""
        kept, elements = self._elements(accessed), accessed.elements
        if kept is None:
            return
        numpy, me = self._numpy, self.program
        new, old = _bits(numpy, values), _bits(numpy, before)
        differs = new != old
        kept.is_written = True
        at = self._range(elements)
        if not isinstance(at, slice):
            self._within_block(elements, new)
        if not self.is_ordered:
            writer, reader = kept.writer[at], kept.reader[at]
            self._note(elements, writer, (writer != 0) & (writer != me) & differs, "store")
            self._note(elements, reader, (reader != 0) & (reader != me) & differs, "load")
        kept.writer[at] = me
        kept.changed[at] |= differs

    def load(self, accessed: AccessedElements) -> None:
        """Note a load."""
        kept, elements = self._elements(accessed), accessed.elements
        if kept is None:
            return
        me, at = self.program, self._range(elements)
        if not self.is_ordered and kept.is_written:
            writer = kept.writer[at]
            self._note(elements, writer, (writer != 0) & (writer != me) & kept.changed[at], "store")
        reader = kept.reader[at]
        kept.reader[at] = self._numpy.where(reader == 0, me, reader)

    def atomic(self, accessed: AccessedElements) -> None:
        """Note an atomic operation."""
        self.is_ordered = True
        kept = self._elements(accessed)
        if kept is not None:
            kept.is_written = True
            kept.writer[accessed.elements] = self.program

    def place_of_store(self, start: int, place: tuple[str, int]) -> None:
        """Note the line of a store."""
        kept = self._storages.get(start)
        if kept is not None:
            kept.last_store = place

    def written(self, start: int) -> tuple[Any, int, tuple[str, int]] | None:
        """Which elements of a storage were written, their size in bytes, and the line of a store; None if unknown."""
        kept = self._storages.get(start)
        return None if kept is None else (kept.writer != 0, kept.item, kept.last_store)

    def _elements(self, accessed: AccessedElements) -> _Elements | None:
        start, size, _, item = accessed
        if start not in self._storages:
            count = size // item
            self._storages[start] = None
            if self._count + count <= MAX_ELEMENTS:
                self._count += count
                zeros = self._numpy.zeros
                self._storages[start] = _Elements(
                    item, zeros(count, "int32"), zeros(count, bool), zeros(count, "int32")
                )
        kept = self._storages[start]
        if kept is not None and kept.item != item:  # two arguments see it with different dtypes
            kept = self._storages[start] = None
        return kept

    def _range(self, elements: Any) -> Any:
        """The elements as a slice, where they follow each other: most do, and a slice is much faster."""
        count = elements.size
        if count and int(elements[-1]) - int(elements[0]) == count - 1:
            follows = elements[1:] - elements[:-1] == 1
            if bool(follows.all()):
                return slice(int(elements[0]), int(elements[0]) + count)
        return elements

    def _within_block(self, elements: Any, bits: Any) -> None:
        """Two lanes of a store that write different values to an element."""
        numpy = self._numpy
        if elements.size < 2:  # noqa: PLR2004 - two lanes
            return
        if bool((elements[1:] > elements[:-1]).all()):  # each lane has an element of its own
            return
        order = numpy.argsort(elements, kind="stable")
        sorted_, values = elements[order], bits[order]
        same = (sorted_[1:] == sorted_[:-1]) & (values[1:] != values[:-1])
        if same.any():
            first = int(sorted_[1:][same].min())
            self._races(ProgramRace(first, self.program, "store", int(numpy.unique(sorted_[1:][same]).size)))

    def _note(self, elements: Any, others: Any, races: Any, access: str) -> None:
        if races.any():
            at = int(self._numpy.argmax(races))
            self._races(ProgramRace(int(elements[at]), int(others[at]), access, int(races.sum())))


def _bits(numpy: Any, values: Any) -> Any:
    """Values as integers: a NaN is equal to itself."""
    values = numpy.ascontiguousarray(values)
    return values.view(f"u{values.dtype.itemsize}")
