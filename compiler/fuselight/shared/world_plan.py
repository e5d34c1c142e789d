"""The notation of worlds: `8` ranks, and the mesh `data=4,model=2` that they form.

Invariant: a plan that is returned is consistent: the sizes of its mesh multiply to its number of ranks.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable

from fuselight.shared.report import MeshDimension, WorldPlan

MAX_RANKS = 16_384
"""Largest world: every process group lists its ranks."""
MAX_RUN = 8
"""Ranks that run by default."""
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_DIMENSION = re.compile(r"\s*([A-Za-z_]\w*)\s*=\s*([0-9]{1,6})\s*")


class WorldError(ValueError):
    """A number of ranks or a mesh that cannot be used."""


def world_plan(ranks: int | None, mesh: str | None = None, most: int = MAX_RUN) -> WorldPlan | None:
    """Return the plan for `ranks` ranks that form `mesh`; None if neither is given. Raises WorldError."""
    if ranks is None and mesh is None:
        return None
    dimensions = parse_mesh(mesh) if mesh is not None else ()
    of_mesh = math.prod(dimension.size for dimension in dimensions)
    size = of_mesh if ranks is None else ranks
    if not 1 <= size <= MAX_RANKS:
        raise WorldError(f"`{size}` ranks: a world has from 1 to {MAX_RANKS:,} ranks")
    if dimensions and of_mesh != size:
        product = " * ".join(str(dimension.size) for dimension in dimensions)
        counted = f"{of_mesh:,} rank{'' if of_mesh == 1 else 's'}"
        if len(dimensions) > 1:
            counted = f"{product} = {counted}"
        raise WorldError(f"the mesh `{mesh}` has {counted}, not `{size}`")
    return WorldPlan(size, dimensions, most=most)


def parse_mesh(text: str) -> tuple[MeshDimension, ...]:
    """Read `data=4,model=2`. Raises WorldError."""
    dimensions = []
    for part in text.split(","):
        match = _DIMENSION.fullmatch(part)
        if match is None or int(match[2]) == 0:
            raise WorldError(f"`{part.strip()}` is not NAME=N, such as data=4")
        dimensions.append(MeshDimension(match[1], int(match[2])))
    names = [dimension.name for dimension in dimensions]
    if len(set(names)) != len(names):
        raise WorldError(f"the mesh `{text}` has two dimensions of one name")
    return tuple(dimensions)


def ranks_to_run(plan: WorldPlan) -> tuple[int, ...]:
    """The ranks to run: all up to `plan.most`, else the first, second and last of each dimension of the mesh."""
    if plan.size <= plan.most:
        return tuple(range(plan.size))
    sizes = [dimension.size for dimension in plan.mesh] or [plan.size]
    corners = itertools.product(*(dict.fromkeys((0, min(1, size - 1), size - 1)) for size in sizes))
    ranks = sorted(
        (sum(_is_inner(*pair) for pair in zip(at, sizes, strict=True)), _number(at, sizes)) for at in corners
    )
    chosen = [0, *(rank for _, rank in ranks if rank not in (0, plan.size - 1)), plan.size - 1]
    if len(chosen) > plan.most:
        chosen = [*chosen[: max(plan.most - 1, 1)], *chosen[-1:]][: plan.most]
    return tuple(sorted(chosen))


def _is_inner(coordinate: int, size: int) -> bool:
    """Whether a coordinate is not at an end of its dimension."""
    return 0 < coordinate < size - 1


def _number(coordinates: tuple[int, ...], sizes: list[int]) -> int:
    """The rank at coordinates of the mesh."""
    rank = 0
    for coordinate, size in zip(coordinates, sizes, strict=True):
        rank = rank * size + coordinate
    return rank


def without_addresses(texts: Iterable[str]) -> tuple[str, ...]:
    """Texts in which an object's address, which differs between processes, is left out."""
    return tuple(_ADDRESS.sub("", text) for text in texts)


def dimension_of(group: tuple[int, ...], mesh: tuple[MeshDimension, ...]) -> str:
    """The name of the mesh dimension along which a process group lies; empty if it lies along none."""
    sizes = [dimension.size for dimension in mesh]
    for index, dimension in enumerate(mesh):
        stride = math.prod(sizes[index + 1 :])
        line = tuple(group[0] + step * stride for step in range(dimension.size)) if group else group
        if group and dimension.size > 1 and group == line and (group[0] // stride) % dimension.size == 0:
            return dimension.name
    return ""
