"""Which launch of a graph each stretch of work is: both are in the order of the graph's wrapper.

Invariant: a launch is given only to work that stands between the neighbours of that launch, in order; where several
launches could have made it, it is given to none.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from fuselight.measure import labels
from fuselight.report import Kernel, KernelKind

_LIBRARY = frozenset({KernelKind.EXTERN, KernelKind.FALLBACK})
_ALIASES = {"bias_addmm": "addmm"}
"""Functions of Inductor's that call another operator than their name says."""
_SUFFIX = re.compile(r"_(?:[0-9dce]+)")
"""What Triton adds to a kernel's name for how its arguments are specialised, in versions that do."""
_LAST_NUMBER = re.compile(r"_\d+$")
_BEFORE = re.compile(r"memset|nchwToNhwc|dot_do_o|computeOffsets", re.IGNORECASE)
"""Kernels by which libraries prepare the one that computes."""
_BEHIND = re.compile(r"splitk_?reduce|nhwcToNchw|combine|convert_d[qkv]|cublasLt::splitK", re.IGNORECASE)
"""Kernels by which they finish it."""


class Told(enum.Enum):
    """By what a stretch of work is known."""

    RECORD = enum.auto()
    """By the record that Inductor makes around a kernel of its own."""
    OPERATOR = enum.auto()
    """By the operator that was called."""
    DEVICE = enum.auto()
    """By the device's name of a kernel alone, as in the replay of a CUDA graph."""
    COPY = enum.auto()
    """A copy or a set, of which the device tells no more."""


@dataclass(frozen=True)
class Element:
    """A stretch of work within one call of a graph."""

    name: str
    told: Told


Range = tuple[int, int]


def align(elements: Sequence[Element], kernels: Sequence[Kernel]) -> list[int | None]:
    """For each element, in order, the position of its launch in `kernels`; None where that is not certain."""
    out: list[int | None] = [None] * len(elements)
    generated = {kernel.name for kernel in kernels if kernel.kind not in _LIBRARY}
    users = {
        _LAST_NUMBER.sub("", one.name): one.name for one in kernels if one.kind is KernelKind.USER_TRITON
    }
    ours = [None if kernel.kind in _LIBRARY else kernel.name for kernel in kernels]
    seen = [_generated(element, generated, users) for element in elements]
    libraries = [_operator(kernel) if kernel.kind in _LIBRARY else None for kernel in kernels]
    called = [labels.short_name(one.name) if one.told is Told.OPERATOR else None for one in elements]
    for span, launches in _anchor(seen, ours, (0, len(elements)), (0, len(kernels)), out):
        # Where no generated kernel stands: by operators, and what is left between those by their number.
        for rest, left in _anchor(called, libraries, span, launches, out):
            free = [launch for launch in range(*left) if kernels[launch].kind in _LIBRARY]
            _share(elements, range(*rest), free, kernels, out)
    return out


def _generated(element: Element, names: set[str], users: dict[str, str]) -> str | None:
    """The name of the generated kernel that an element must be, None if it is none."""
    if element.told in {Told.OPERATOR, Told.COPY}:
        return None
    name = labels.kernel_name(element.name)
    if name in names:
        return name
    if name in users:
        return users[name]
    for known in names:
        if element.told is Told.RECORD and name.endswith(f"_{known}"):  # a C++ template's, which has a prefix
            return known
        if element.told is Told.DEVICE and name.startswith(known) and _SUFFIX.fullmatch(name[len(known) :]):
            return known
    return None


def _operator(kernel: Kernel) -> str:
    """`addmm` of `extern_kernels.addmm`, `sort` of `torch.ops.aten.sort.stable`."""
    parts = kernel.name.split(".")
    name = parts[3] if parts[:2] == ["torch", "ops"] and len(parts) > 3 else parts[-1]  # noqa: PLR2004 - torch.ops.a.b
    return _ALIASES.get(name, name)


def _anchor(
    seen: Sequence[str | None],
    ours: Sequence[str | None],
    span: Range,
    launches: Range,
    out: list[int | None],
) -> list[tuple[Range, Range]]:
    """Join what has the same name, in order, into `out`; returns what lies between, on both sides."""
    left = [at for at in range(*span) if seen[at] is not None]
    right = [at for at in range(*launches) if ours[at] is not None]
    names, wanted = [seen[at] for at in left], [ours[at] for at in right]
    if names == wanted:
        pairs = list(zip(left, right, strict=True))
    else:
        blocks = SequenceMatcher(None, names, wanted, autojunk=False).get_matching_blocks()
        pairs = [(left[a + i], right[b + i]) for a, b, size in blocks for i in range(size)]
    between, at, launch = [], span[0], launches[0]
    for element, found in pairs:
        out[element] = found
        between.append(((at, element), (launch, found)))
        at, launch = element + 1, found + 1
    between.append(((at, span[1]), (launch, launches[1])))
    return [(rest, left) for rest, left in between if rest[0] < rest[1] and left[0] < left[1]]


def _share(
    elements: Sequence[Element],
    rest: range,
    free: Sequence[int],
    kernels: Sequence[Kernel],
    out: list[int | None],
) -> None:
    """Give work that no name tells of to the launches of libraries between the same neighbours."""
    told = {elements[at].told for at in rest}
    if told & {Told.DEVICE, Told.COPY}:  # a replay, maybe behind operators that bring it its inputs
        replayed = [at for at in rest if elements[at].told in {Told.DEVICE, Told.COPY}]
        groups = _groups([elements[at] for at in replayed], len(free)) if free else []
        for launch, group in zip(free, groups, strict=False):
            for at in group:
                out[replayed[at]] = launch
    elif told == {Told.OPERATOR} and len(rest) == len(free):
        for at, launch in zip(rest, free, strict=True):
            out[at] = launch
    elif told == {Told.OPERATOR} and len(free) == 1:
        for at in rest:  # a function of Inductor's that calls several, as `_mm_plus_mm`
            if labels.short_name(elements[at].name) in kernels[free[0]].name:
                out[at] = free[0]


def _groups(work: Sequence[Element], count: int) -> list[list[int]]:
    """The kernels of each of `count` library calls in a row; empty where their number does not tell."""
    if count == 1:
        return [list(range(len(work)))]
    main = [not _prepares(one) and not _BEHIND.search(one.name) for one in work]
    if sum(main) != count:
        main = [True] * len(work)
        if len(work) != count or any(one.told is Told.COPY for one in work):
            return []
    groups: list[list[int]] = [[]]
    ahead: list[int] = []
    for at, one in enumerate(work):
        if not main[at] and (_prepares(one) or not groups[-1]):
            ahead.append(at)
        elif main[at] and groups[-1]:
            groups.append([*ahead, at])
            ahead = []
        else:
            groups[-1] += [*ahead, at]
            ahead = []
    groups[-1] += ahead
    return groups


def _prepares(one: Element) -> bool:
    return one.told is Told.COPY or _BEFORE.search(one.name) is not None
