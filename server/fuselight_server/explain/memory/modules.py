"""The memory at a peak, folded by module.

Invariant: the bytes of a module include those of the modules in it, and the top rows add up to the peak.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from fuselight.shared.report import MemoryPeak, MemoryUse

_LEAST_PART = 0.02
"""Of the peak: a module inside another one that holds less is not listed."""


@dataclass(frozen=True)
class ModuleRow:
    """What a module holds, with the modules in it."""

    name: str
    """Qualified; empty for the target itself, and for what no module made."""
    depth: int
    """How many modules it is in; 0 for those of the target."""
    bytes: int
    uses: tuple[tuple[MemoryUse, int], ...]
    """Bytes by kind, most first."""


def module_rows(peak: MemoryPeak) -> list[ModuleRow]:
    """The modules from the top, each before those in it, most bytes first; small ones inside others are left out."""
    sizes: dict[str, Counter[MemoryUse]] = {}
    for row in peak.modules:
        for name in _with_parents(row.module):
            sizes.setdefault(name, Counter())[row.use] += row.bytes
    least = _LEAST_PART * peak.bytes
    children: dict[str, list[str]] = {}
    for name in sizes:
        children.setdefault(name.rpartition(".")[0] if name else " ", []).append(name)
    return list(_rows(children, sizes, "", 0, least))


def _rows(
    children: dict[str, list[str]],
    sizes: dict[str, Counter[MemoryUse]],
    parent: str,
    depth: int,
    least: float,
) -> Iterator[ModuleRow]:
    names = [*children.get(parent, ()), *(children.get(" ", ()) if not depth else ())]
    for name in sorted(names, key=lambda name: (-sizes[name].total(), name)):
        total = sizes[name].total()
        if depth and total < least:
            continue
        yield ModuleRow(name, depth, total, tuple(sizes[name].most_common()))
        if name:
            yield from _rows(children, sizes, name, depth + 1, least)


def _with_parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    yield from (".".join(parts[: index + 1]) for index in range(len(parts)))
