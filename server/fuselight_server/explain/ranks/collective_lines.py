"""The collectives of a rank by line: how many, how large, and how long they take at best on a link.

Invariant: every collective is in collective row, and a row is of one line, one phase and one process group.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fuselight.shared.report import Collective, Location, MeshDimension, innermost_user_frame
from fuselight.shared.world_plan import dimension_of
from fuselight_server.explain.ranks.link import RankLink, estimated_us

_HOOKS = {"fsdp": "FSDP2", "ddp": "DDP"}


@dataclass(frozen=True)
class CollectiveRow:
    """Collectives of one kind that one line calls in one phase."""

    location: Location | None
    kind: str
    phase: str
    """`eager`, `graph`, `backward`, `backward graph`, or the hooks that call it: `FSDP2`, `DDP backward`."""
    group_size: int
    dimension: str
    """Name of the mesh dimension; empty if it is not known."""
    dtypes: tuple[str, ...]
    count: int
    bytes: int
    estimate_us: float
    overlapping: int
    """How many of them are asynchronous, so that the caller can go on."""


def collective_rows(
    collectives: Iterable[Collective], roots: Sequence[str], mesh: tuple[MeshDimension, ...], link: RankLink
) -> tuple[CollectiveRow, ...]:
    """Fold collectives into rows, in the order of their first call."""
    groups: dict[tuple[object, ...], list[Collective]] = {}
    for collective in collectives:
        place = innermost_user_frame(collective.stack, roots)
        key = (
            place and (place.path, place.line),
            collective.kind,
            phase_of(collective),
            len(collective.group),
            dimension_of(collective.group, mesh),
        )
        groups.setdefault(key, []).append(collective)
    return tuple(_row(group, roots, mesh, link) for group in groups.values())


def phase_of(collective: Collective) -> str:
    """When and from where a collective is called."""
    hooks = _HOOKS.get(collective.source, "")
    words = [hooks, "backward" if collective.is_backward else "", "graph" if collective.in_graph else ""]
    return " ".join(word for word in words if word) or "eager"


def _row(
    group: list[Collective], roots: Sequence[str], mesh: tuple[MeshDimension, ...], link: RankLink
) -> CollectiveRow:
    first = group[0]
    return CollectiveRow(
        innermost_user_frame(first.stack, roots),
        first.kind,
        phase_of(first),
        len(first.group),
        dimension_of(first.group, mesh),
        tuple(dict.fromkeys(collective.dtype for collective in group if collective.dtype)),
        len(group),
        sum(collective.bytes for collective in group),
        sum(estimated_us(collective, link) for collective in group),
        sum(can_overlap(group)),
    )


def can_overlap(group: Sequence[Collective]) -> list[bool]:
    """Whether each is known to run while the caller goes on: asynchronous ones, but for the last bucket of DDP."""
    flags = [collective.is_async for collective in group]
    if group and group[0].source == "ddp" and group[0].is_backward:
        flags[-1] = False  # nothing is left to compute after the last gradients
    return flags
