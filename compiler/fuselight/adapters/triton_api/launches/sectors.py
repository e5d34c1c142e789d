"""Which part of the 32-byte sectors of memory that a program fetches it uses.

A GPU reads and writes whole sectors. Counted is what a program accesses of an argument in all, at whatever lines and in
whatever iterations: a sector that another access of the program uses as well is not wasted, whatever its layout.
"""

from __future__ import annotations

from typing import Any

SECTOR = 32
"""Bytes."""
MAX_USEFUL = 0.25
"""Part of the bytes that a wasteful access uses at most."""
_MIN_SECTORS = 32
"""How many sectors one access fetches at least: fewer cost little, whatever is used of them."""
_MAX_PROGRAMS = 6
"""Maximum programs that are counted."""
_MAX_LANES = 1 << 21
"""Maximum lanes of a program that are kept to be counted."""

Key = tuple[str, str, int, str]
"""Access, file, line, argument."""


class SectorUse:
    """The sectors of the programs of a launch."""

    def __init__(self, numpy: Any) -> None:
        self._numpy = numpy
        self._lanes: dict[Key, list[tuple[Any, int]]] = {}
        self._count = 0
        self._programs = 0
        self._wide: set[Key] = set()
        self.useful: dict[Key, tuple[float, tuple[int, int, int]]] = {}
        """Of each access of many sectors, the largest part that a program used, and that program."""

    def note(self, key: Key, addresses: Any, item: int) -> None:
        """Take the addresses of an access of `item` bytes each."""
        if self._programs >= _MAX_PROGRAMS or self._count > _MAX_LANES:
            return
        self._count += addresses.size
        self._lanes.setdefault(key, []).append((addresses, item))
        may_be_wide = key not in self._wide and addresses.size >= _MIN_SECTORS
        if may_be_wide and self._numpy.unique(addresses // SECTOR).size >= _MIN_SECTORS:
            self._wide.add(key)

    def end_program(self, program: tuple[int, int, int]) -> None:
        """Count the accesses since the last call."""
        if self._lanes and self._count <= _MAX_LANES:
            self._programs += 1
            arguments: dict[str, float] = {}
            for key in self._wide & self._lanes.keys():
                name = key[3]
                if name not in arguments:
                    every = [lanes for other, lanes in self._lanes.items() if other[3] == name]
                    arguments[name] = self._part([lane for lanes in every for lane in lanes])
                part = max(arguments[name], self._part(self._lanes[key]))
                if part > self.useful.get(key, (-1.0, program))[0]:
                    self.useful[key] = part, program
        self._lanes, self._count = {}, 0

    def wasteful(self) -> dict[Key, tuple[float, tuple[int, int, int]]]:
        """The accesses of which each counted program used a small part only."""
        return {key: value for key, value in self.useful.items() if value[0] <= MAX_USEFUL}

    def _part(self, accesses: list[tuple[Any, int]]) -> float:
        numpy = self._numpy
        addresses = numpy.unique(numpy.concatenate([addresses for addresses, _ in accesses]))
        used = addresses.size * max(item for _, item in accesses)
        fetched = numpy.unique(addresses // SECTOR).size * SECTOR
        return float(min(1.0, used / fetched))
