"""The sizes that a pattern of einops requires of its input: `b c (h p1) (w p2) -> b (h w) (p1 p2 c)`.

Invariant: the number of dimensions is that of the pattern. An axis whose size neither the call nor the next layer
decides gets a small size by its usual name.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

FUNCTIONS = {"rearrange": "Rearrange", "reduce": "Reduce"}
"""Functions of einops, and the layers that do the same."""
LAYERS = frozenset(FUNCTIONS.values())
_GROUP = re.compile(r"\(([^()]*)\)|(\S+)")
_CHANNELS = re.compile(r"c(?:h|hans?|hannels?)?$")
_SPATIAL = re.compile(r"(?:h|w|height|width)\d?$")
_IMAGE_CHANNELS = 3
_FEATURES = 8


def input_shape(
    pattern: Any,
    known: Mapping[str, Any],
    last: Any,
    *,
    batch: int,
    length: int,
    side: Callable[[int], int],
) -> list[int]:
    """The shape of an input that a pattern accepts; empty if the pattern is unknown, or takes any number of dimensions.

    `known`: sizes that the call gives; `last`: the last size of the output, as the next layer requires it.
    """
    if not isinstance(pattern, str) or "..." in pattern or "*" in pattern:
        return []
    left, _, right = pattern.partition("->")
    groups = _groups(left)
    sizes = {name: size for name, size in known.items() if type(size) is int and size > 0}
    _solve_last(_groups(right), last, sizes)
    spatial = [group for group in groups if any(map(_SPATIAL.match, group))]
    shape = []
    for index, group in enumerate(groups):
        given = math.prod(sizes.get(name, 1) for name in group)
        if all(name in sizes or name == "1" for name in group):
            shape.append(given)
        elif index == 0:
            shape.append(given * batch)
        elif group in spatial:
            shape.append(max(side(given) // given, 1) * given)
        elif index == len(groups) - 1 or any(map(_CHANNELS.match, group)):
            shape.append(given * (_IMAGE_CHANNELS if len(spatial) > 1 else _FEATURES))
        else:
            shape.append(given * length)
    return shape


def _groups(side: str) -> list[tuple[str, ...]]:
    """The axes of each dimension."""
    return [tuple((inner or single).split()) for inner, single in _GROUP.findall(side)]


def _solve_last(groups: Sequence[tuple[str, ...]], last: Any, sizes: dict[str, int]) -> None:
    """Learn the one unknown axis of the last dimension from its size."""
    unknown = [name for name in groups[-1] if name not in sizes] if groups else []
    if len(unknown) == 1 and type(last) is int and last > 0:
        given = math.prod(sizes[name] for name in groups[-1] if name in sizes)
        if last % given == 0:
            sizes[unknown[0]] = last // given
