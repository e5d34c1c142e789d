"""Where the object is, in the variables of a call, with which compiled code looks a key up.

torch keeps no name for it. Invariant: a place counts only if it is the only one that held the object at the compile,
and if the line of the lookup names it; attributes are read as objects hold them, and no code of the user's runs.
"""

from __future__ import annotations

import linecache
import re
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from fuselight.adapters.torch_api.dynamo.key_lookups import KeyLookup
from fuselight.capture.dynamo import stacks
from fuselight.shared.own_attributes import own_attributes
from fuselight.shared.report import Stack

_LOOKUP = r"(?:\[|\.(?:get|pop|setdefault)\()\s*({name})\s*[\],)]|(?<![\w.])({name})\s+(?:not\s+)?in\b"
_MAX_DEPTH = 3
_MAX_PLACES = 20_000


@dataclass(frozen=True)
class PlacedLookup:
    """A lookup, and the variable of the compiled function that leads to its object."""

    lookup: KeyLookup
    path: tuple[str, ...]
    """The variable, and the attributes that lead on."""
    name: str
    """The object as the line names it: `self.mode`."""
    stack: Stack

    def finds_another(self, variables: Mapping[str, object]) -> bool:
        """Whether a call with these variables looks another object up, for which there is something else."""
        try:
            value = variables[self.path[0]]
            for attribute in self.path[1:]:
                value = own_attributes(value)[attribute]
        except KeyError:
            return False
        return self.lookup.finds_another(value)


def placed_lookups(lookups: Iterable[KeyLookup], variables: Mapping[str, object]) -> Iterator[PlacedLookup]:
    """The lookups whose object has one place in the variables of the compiled function."""
    known: dict[int, list[tuple[str, ...]]] = {}
    for lookup in lookups:
        if not known:
            known = _places(variables)
        paths = known.get(id(lookup.key()), [])
        name = _named(lookup, paths[0]) if len(paths) == 1 else ""
        if name:
            yield PlacedLookup(lookup, paths[0], name, stacks.from_summaries(lookup.stack))


def _places(variables: Mapping[str, object]) -> dict[int, list[tuple[str, ...]]]:
    """The paths to the objects that variables and their attributes hold, by `id`; none where there are too many.

    Each object is entered once.
    """
    places: dict[int, list[tuple[str, ...]]] = {}
    level: list[tuple[tuple[str, ...], object]] = [((name,), value) for name, value in variables.items()]
    entered: set[int] = set()
    for depth in range(_MAX_DEPTH + 1):
        following: list[tuple[tuple[str, ...], object]] = []
        for path, value in level:
            places.setdefault(id(value), []).append(path)
            if depth < _MAX_DEPTH and id(value) not in entered:
                entered.add(id(value))
                following += [((*path, name), item) for name, item in _held(value).items()]
        if len(places) + len(following) > _MAX_PLACES:
            return {}  # another place may lead to the object
        level = following
    return places


def _held(value: object) -> dict[str, object]:
    """The attributes of an object; none of a class, a module or a function, which every object leads to."""
    if isinstance(value, (type, types.ModuleType, types.FunctionType)):
        return {}
    return {name: item for name, item in own_attributes(value).items() if not name.startswith("__")}


def _named(lookup: KeyLookup, path: tuple[str, ...]) -> str:
    """How the line of the lookup names the object; empty if it does not. A method names it from its own `self`."""
    if not lookup.stack:
        return ""
    frame = lookup.stack[-1]
    text = linecache.getline(frame.filename, frame.lineno or 0)
    last = re.escape(path[-1])
    name = rf"(?:\w+\.)+{last}" if path[1:] else last
    names = {match[1] or match[2] for match in re.finditer(_LOOKUP.format(name=name), text)}
    return names.pop() if len(names) == 1 else ""
