"""Matches each element of a graph's recorded work to a kernel launch: both follow the order of the graph's wrapper.

Invariant: an element gets a launch only if it lies between the neighbors of that launch, in order; if several launches
could have produced it, it gets none.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from fuselight.measure.profile import torch_records
from fuselight.shared.report import Kernel, KernelKind

_LIBRARY = frozenset({KernelKind.EXTERN, KernelKind.FALLBACK})
_ALIASES = {"bias_addmm": "addmm"}
"""Inductor functions that call an operator with another name."""
_SUFFIX = re.compile(r"_(?:[0-9dce]+)")
"""Suffix that some Triton versions add to a kernel's name for specialized arguments."""
_LAST_NUMBER = re.compile(r"_\d+$")
_BEFORE = re.compile(r"memset|nchwToNhwc|dot_do_o|computeOffsets", re.IGNORECASE)
"""Kernels with which libraries prepare the kernel that computes."""
_AFTER = re.compile(r"splitk_?reduce|nhwcToNchw|combine|convert_d[qkv]|cublasLt::splitK", re.IGNORECASE)
"""Kernels with which libraries finish the computation."""


class KnownBy(enum.Enum):
    """How an element of work was identified."""

    RECORD = enum.auto()
    """By Inductor's record around its own kernel."""
    OPERATOR = enum.auto()
    """By the operator that was called."""
    DEVICE = enum.auto()
    """Only by the device's name of the kernel, as in the replay of a CUDA graph."""
    COPY = enum.auto()
    """A copy or a memory set, for which the device reports nothing else."""


@dataclass(frozen=True)
class Element:
    """A piece of work within one call of a graph."""

    name: str
    known_by: KnownBy


Range = tuple[int, int]


def align(elements: Sequence[Element], kernels: Sequence[Kernel]) -> list[int | None]:
    """For each element, in order, the position of its launch in `kernels`; None if that is uncertain.

    Generated kernels come first: graph and profile have the same names for them. A library's kernel has the name that
    the vendor gave it, and one call may launch several, so those are matched only between two generated kernels, by
    operator and then by count. One match over everything could trade a certain pair for a longer run of guesses.
    """
    out: list[int | None] = [None] * len(elements)
    generated = {kernel.name for kernel in kernels if kernel.kind not in _LIBRARY}
    users = {
        _LAST_NUMBER.sub("", kernel.name): kernel.name
        for kernel in kernels
        if kernel.kind is KernelKind.USER_TRITON
    }
    ours = [None if kernel.kind in _LIBRARY else kernel.name for kernel in kernels]
    seen = [_generated(element, generated, users) for element in elements]
    libraries = [_operator(kernel) if kernel.kind in _LIBRARY else None for kernel in kernels]
    called = [
        torch_records.short_name(element.name) if element.known_by is KnownBy.OPERATOR else None
        for element in elements
    ]
    for span, launches in _anchor(seen, ours, (0, len(elements)), (0, len(kernels)), out):
        # Between generated kernels: match by operator, then the rest by count.
        for rest, left in _anchor(called, libraries, span, launches, out):
            free = [launch for launch in range(*left) if kernels[launch].kind in _LIBRARY]
            _share(elements, range(*rest), free, kernels, out)
    return out


def _generated(element: Element, names: set[str], users: dict[str, str]) -> str | None:
    """The name of the generated kernel that an element must be; None if it is not a generated kernel."""
    if element.known_by in {KnownBy.OPERATOR, KnownBy.COPY}:
        return None
    name = torch_records.kernel_name(element.name)
    if name in names:
        return name
    if name in users:
        return users[name]
    for known in names:
        if element.known_by is KnownBy.RECORD:
            is_same = name.endswith(f"_{known}")  # a C++ template's kernel has a prefix
        else:
            is_same = name.startswith(known) and _SUFFIX.fullmatch(name[len(known) :]) is not None
        if is_same:
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
    """Match equal names in order into `out`; returns the unmatched ranges on both sides."""
    left = [at for at in range(*span) if seen[at] is not None]
    right = [at for at in range(*launches) if ours[at] is not None]
    names, wanted = [seen[at] for at in left], [ours[at] for at in right]
    if names == wanted:
        pairs = list(zip(left, right, strict=True))
    else:
        blocks = SequenceMatcher(None, names, wanted, autojunk=False).get_matching_blocks()
        pairs = [(left[a + i], right[b + i]) for a, b, size in blocks for i in range(size)]
    between, at, launch = [], span[0], launches[0]
    for element, anchor in pairs:
        out[element] = anchor
        between.append(((at, element), (launch, anchor)))
        at, launch = element + 1, anchor + 1
    between.append(((at, span[1]), (launch, launches[1])))
    return [(rest, left) for rest, left in between if rest[0] < rest[1] and left[0] < left[1]]


def _share(
    elements: Sequence[Element],
    rest: range,
    free: Sequence[int],
    kernels: Sequence[Kernel],
    out: list[int | None],
) -> None:
    """Assign work without a recognizable name to the library launches between the same neighbors."""
    known = {elements[at].known_by for at in rest}
    if known & {KnownBy.DEVICE, KnownBy.COPY}:  # a replay, perhaps after operators that copy its inputs
        replayed = [at for at in rest if elements[at].known_by in {KnownBy.DEVICE, KnownBy.COPY}]
        groups = _groups([elements[at] for at in replayed], len(free)) if free else []
        for launch, group in zip(free, groups, strict=False):
            for at in group:
                out[replayed[at]] = launch
    elif known == {KnownBy.OPERATOR} and len(rest) == len(free):
        for at, launch in zip(rest, free, strict=True):
            out[at] = launch
    elif known == {KnownBy.OPERATOR} and len(free) == 1:
        for at in rest:  # an Inductor function that calls several kernels, such as `_mm_plus_mm`
            if torch_records.short_name(elements[at].name) in kernels[free[0]].name:
                out[at] = free[0]


def _groups(work: Sequence[Element], count: int) -> list[list[int]]:
    """The kernels of each of `count` consecutive library calls; empty if their number is ambiguous."""
    if count == 1:
        return [list(range(len(work)))]
    main = [not _prepares(element) and not _AFTER.search(element.name) for element in work]
    if sum(main) != count:
        main = [True] * len(work)
        if len(work) != count or any(element.known_by is KnownBy.COPY for element in work):
            return []
    groups: list[list[int]] = [[]]
    ahead: list[int] = []
    for at, element in enumerate(work):
        if not main[at] and (_prepares(element) or not groups[-1]):
            ahead.append(at)
        elif main[at] and groups[-1]:
            groups.append([*ahead, at])
            ahead = []
        else:
            groups[-1] += [*ahead, at]
            ahead = []
    groups[-1] += ahead
    return groups


def _prepares(element: Element) -> bool:
    return element.known_by is KnownBy.COPY or _BEFORE.search(element.name) is not None
