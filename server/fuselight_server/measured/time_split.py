"""Where the time of one call goes: kernels, and by kind what the host does while none runs.

Invariant: the parts add up to the wall time of the profiled call; what the profile does not tell apart is a part of its
own. Kernels that overlap on several streams count once, each kind with its part of the union.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuselight.report import GapKind, LaunchKind
from fuselight_server.kernels.shares import place_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from fuselight.report import Gap, Profile
    from fuselight_server.kernels.shares import SourceLine

UNKNOWN = "unknown"
_NEGLIGIBLE = 0.001
"""Of the wall time: what is less is rounding."""

KERNEL = "kernel"
LAUNCHES = {
    LaunchKind.KERNEL: (KERNEL, "compiled kernels"),
    LaunchKind.EAGER: ("kernel_eager", "kernels that were not compiled"),
    LaunchKind.INPUTS: ("kernel_copy", "making the inputs of compiled graphs"),
    LaunchKind.COPY: ("kernel_copy", "copies and fills"),
}
GAPS = {
    GapKind.LAUNCH: "waiting for a kernel to start",
    GapKind.GUARDS: "checking guards",
    GapKind.WRAPPER: "code around compiled kernels",
    GapKind.EAGER: "calls that were not compiled",
    GapKind.SYNC: "waiting for the device",
    GapKind.COPY: "copies between host and device",
    GapKind.HOST: "Python and other work on the host",
}
FOREIGN = "operators of this backend, and what was not compiled"
"""Two kinds of work that look the same where a backend other than Inductor runs the graphs."""
_FOREIGN_LAUNCHES = {LaunchKind.EAGER: ("kernel_backend", f"kernels of {FOREIGN}")}
_FOREIGN_GAPS = {GapKind.EAGER: ("backend", f"calls of {FOREIGN}")}


@dataclass(frozen=True)
class Part:
    """A part of one call's wall time."""

    kind: str
    """`kernel`, `kernel_eager`, `kernel_copy`, `kernel_backend`; a GapKind's word, `backend`; `unknown`."""
    label: str
    us: float
    place: SourceLine | None = None
    what: str = ""


def parts(profile: Profile, roots: Sequence[str], *, foreign: bool = False) -> tuple[Part, ...]:
    """Return kernels by kind, then gaps by kind, longest first within a kind, then the unattributed time.

    `foreign`: a backend other than Inductor compiled the graphs.
    """
    found = [*_kernels(profile, foreign=foreign), *_gaps(profile.gaps, roots, foreign=foreign)]
    rest = profile.wall_us - sum(part.us for part in found)
    if rest > _NEGLIGIBLE * profile.wall_us:
        found.append(Part(UNKNOWN, "unattributed", rest))
    return tuple(found)


def _kernels(profile: Profile, *, foreign: bool) -> Iterator[Part]:
    whole = sum(max(one.us, 0.0) for one in profile.launches)
    if whole <= 0:
        if profile.kernel_us > 0:
            yield Part(KERNEL, "kernels", profile.kernel_us)
        return
    for kind, known in LAUNCHES.items():
        name, label = _FOREIGN_LAUNCHES.get(kind, known) if foreign else known
        us = sum(max(one.us, 0.0) for one in profile.launches if one.kind is kind)
        if us > 0:
            yield Part(name, label, us * profile.kernel_us / whole)


def _gaps(gaps: Sequence[Gap], roots: Sequence[str], *, foreign: bool = False) -> Iterator[Part]:
    for kind, known in GAPS.items():
        plain = (kind.value, known)
        name, label = _FOREIGN_GAPS.get(kind, plain) if foreign else plain
        here: dict[tuple[SourceLine | None, str], float] = {}
        for gap in gaps:
            if gap.kind is kind:
                key = (place_of(gap.stack, roots), gap.what)
                here[key] = here.get(key, 0.0) + gap.us
        for (place, what), us in sorted(here.items(), key=lambda item: -item[1]):
            yield Part(name, label, us, place=place, what=what)


def of_kind(profile: Profile, *kinds: GapKind) -> float:
    """Return the time of gaps of these kinds in one call, microseconds."""
    return sum(gap.us for gap in profile.gaps if gap.kind in kinds)


def longest(profile: Profile, kind: GapKind, roots: Sequence[str]) -> tuple[SourceLine | None, str]:
    """Return the line, and the call, that most of the time of a kind goes to, of those that have a line if any has."""
    found = [part for part in _gaps(profile.gaps, roots) if part.kind == kind.value]
    best = next((part for part in found if part.place is not None), next(iter(found), None))
    return (best.place, best.what) if best is not None else (None, "")
