"""Folds large pictures: equal neighbors become one box with a count, which keeps the layout small.

A compile and its first breaks fold as one run of boxes. Two runs are neighbors if one leads only to the other, or if
both hang on the same box. Invariant: a picture of up to `most` boxes stays unchanged; a folded box lists its members,
and boxes that are cut off at the end are counted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass, replace

from fuselight_server.explain.graphs.picture import Arrow, Box, BoxKind, Member, Picture

MAX = 60
"""Up to this many boxes nothing is folded; a layout has at most twice as many."""
FEWEST = 3
"""The fewest neighbors that are folded."""
LISTED = 200
"""The most members that a folded box lists."""


@dataclass(frozen=True)
class _Unit:
    """A box and the breaks that it came to first."""

    box: Box
    breaks: tuple[Box, ...]

    @property
    def boxes(self) -> tuple[Box, ...]:
        return (self.box, *self.breaks)


def fold(picture: Picture, most: int = MAX) -> Picture:
    """Fold equal neighbors, then similar ones, until at most `most` boxes are left; then cut at twice that."""
    for key in (_equal, _alike):
        shorter = True
        while shorter and len(picture.boxes) > most:
            # Again, since what hung on several boxes hangs on one after they were folded.
            before, picture = picture, _folded(picture, key)
            shorter = len(picture.boxes) < len(before.boxes)
    return picture if len(picture.boxes) <= 2 * most else _cut(picture, 2 * most)


def _equal(unit: _Unit, to: frozenset[Hashable]) -> Hashable:
    """What is drawn of it is the same, names, lines and what differs between recompilations aside."""
    ends = tuple((graph_break.name, graph_break.title) for graph_break in unit.breaks)
    return (unit.box.kind, unit.box.again, unit.box.title, unit.box.equal or unit.box.facts, ends, to)


def _alike(unit: _Unit, _to: frozenset[Hashable]) -> Hashable:
    """It is of the same kind and ends in as many breaks."""
    return (unit.box.kind, unit.box.again, len(unit.breaks))


def _units(picture: Picture) -> list[_Unit]:
    owned: dict[str, list[Box]] = defaultdict(list)
    for box in picture.boxes:
        if box.owner is not None:
            owned[box.owner].append(box)
    return [_Unit(box, tuple(owned[box.id])) for box in picture.boxes if box.owner is None]


def _folded(picture: Picture, key: Callable[[_Unit, frozenset[Hashable]], Hashable]) -> Picture:
    units = _units(picture)
    runs = _runs(picture, units, key)
    merged: dict[str, Box] = {}
    stands_for: dict[str, str] = {}
    for run in runs:
        if len(run) < FEWEST:
            merged.update({box.id: box for unit in run for box in unit.boxes})
            continue
        for column in zip(*(unit.boxes for unit in run), strict=True):
            merged[column[0].id] = _merged(column)
            stands_for.update({box.id: column[0].id for box in column})
    boxes = tuple(merged[box.id] for box in picture.boxes if box.id in merged)
    return Picture(boxes, _mapped(picture.arrows, stands_for, boxes))


def _runs(
    picture: Picture, units: list[_Unit], key: Callable[[_Unit, frozenset[Hashable]], Hashable]
) -> list[list[_Unit]]:
    before: dict[str, set[str]] = defaultdict(set)
    to: dict[str, set[Hashable]] = defaultdict(set)
    own = {box.id: unit.box.id for unit in units for box in unit.boxes}
    kinds = {box.id: (box.name, box.title) for box in picture.boxes if box.kind is BoxKind.BREAK}
    for arrow in picture.arrows:
        before[arrow.end].add(arrow.start)
        if arrow.end in kinds:
            to[arrow.start].add(kinds[arrow.end])
    runs: list[list[_Unit]] = []
    ending: dict[tuple[str, Hashable], list[_Unit]] = {}
    siblings: dict[tuple[frozenset[str], Hashable], list[_Unit]] = {}
    for unit in units:
        starts = frozenset(before[unit.box.id])
        same = key(unit, frozenset(to[unit.box.id]))
        owners = {own[start] for start in starts}
        run = ending.pop((next(iter(owners)), same), None) if len(owners) == 1 else None
        if run is None and starts:
            run = siblings.get((starts, same))
        if run is None:
            run = []
            runs.append(run)
            siblings[starts, same] = run
        run.append(unit)
        ending[unit.box.id, same] = run
    return runs


def _merged(column: tuple[Box, ...]) -> Box:
    first, last = column[0], column[-1]
    titles = list(dict.fromkeys(box.title for box in column))
    names = [box.name for box in (first, last)]
    shared = [fact for fact in first.facts if all(fact in box.facts for box in column)]
    members = [member for box in column for member in (box.members or (Member(_label(box), box.at),))]
    return replace(
        first,
        name=names[0] if names[0] == names[1] else f"{names[0]} to {names[1]}",
        title=titles[0] if len(titles) == 1 else f"{titles[0]} and {len(titles) - 1} more",
        facts=(*shared, *_lines(members)),
        members=tuple(members),
    )


def _lines(members: Iterable[Member]) -> list[str]:
    """Say on how many lines they are, where that is more than one of one file."""
    places = [member.at for member in members if member.at is not None]
    lines = sorted({place.line for place in places})
    if len(lines) < 2 or len({place.path for place in places}) > 1:  # noqa: PLR2004 - one has a place of its own
        return []
    return [f"{len(lines)} lines, {lines[0]} to {lines[-1]}"]


def _label(box: Box) -> str:
    return ", ".join(part for part in (box.name, box.title, *box.facts) if part)


def _mapped(arrows: Iterable[Arrow], stands_for: dict[str, str], boxes: tuple[Box, ...]) -> tuple[Arrow, ...]:
    """Redirect arrows to the folded boxes; the count of a folded box stands for the arrows inside it."""
    order = {box.id: index for index, box in enumerate(boxes)}
    actual_arrows: dict[Arrow, None] = {}
    for arrow in arrows:
        start, end = stands_for.get(arrow.start, arrow.start), stands_for.get(arrow.end, arrow.end)
        moved = (start, end) != (arrow.start, arrow.end)
        if start != end and not (moved and order[start] > order[end]):
            actual_arrows[Arrow(start, end, arrow.kind)] = None
    return tuple(actual_arrows)


def _cut(picture: Picture, most: int) -> Picture:
    kept, rest = picture.boxes[: most - 1], picture.boxes[most - 1 :]
    count = sum(len(box.members) or 1 for box in rest)
    more = Box(
        "more",
        BoxKind.MORE,
        "",
        f"and {count} more boxes",
        ("the report's tree lists them",),
        members=tuple(Member(_label(box), box.at) for box in rest),
    )
    boxes = (*kept, more)
    return Picture(boxes, _mapped(picture.arrows, {box.id: more.id for box in rest}, boxes))
