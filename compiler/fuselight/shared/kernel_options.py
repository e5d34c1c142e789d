"""Which changes of a Triton kernel are worth a compile, from what its compiled form shows.

Invariant: a trial is an option of the launch, or an assumption that the program can state (`tl.multiple_of`); none
changes what the kernel computes. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fuselight.shared.kernel_forms import memory_accesses
from fuselight.shared.report import Assembled, Device, OwnKernel

LOW_OCCUPANCY = 0.25
"""Part of a multiprocessor's warps up to which occupancy is low."""
MAX_TRIALS = 4
"""Of one kernel."""
_MAX_THREADS = 1024
"""Of a block."""


@dataclass(frozen=True)
class CompileTrial:
    """One compile with a change."""

    option: str
    """`num_warps`, `num_stages`, or the name of an argument."""
    value: int
    """Of the option; of an argument, what it is divisible by."""
    options: dict[str, Any] = field(default_factory=dict)
    divisible: str | None = None
    """The argument that is assumed to be divisible by 16."""


def is_low(assembled: Assembled) -> bool:
    """Whether registers or shared memory leave room for few warps."""
    occupancy = assembled.occupancy
    return (
        occupancy is not None
        and occupancy.limited_by in ("registers", "shared memory")
        and occupancy.warps <= LOW_OCCUPANCY * occupancy.most
    )


def wanted_trials(kernel: OwnKernel, device: Device) -> tuple[CompileTrial, ...]:
    """Return the changes that may help a kernel, those that are most likely to first."""
    assembled = kernel.assembled
    if assembled is None or assembled.failure is not None:
        return ()
    trials: list[CompileTrial] = []
    warps, stages = kernel.num_warps or assembled.num_warps, kernel.num_stages
    if assembled.spills or is_low(assembled):
        by_shared = assembled.occupancy is not None and assembled.occupancy.limited_by == "shared memory"
        if warps is not None and (assembled.spills or not by_shared):
            more = [warps * 2, warps * 4] if assembled.spills else [warps * 2]
            trials += [_option("num_warps", count) for count in more if count * device.warp <= _MAX_THREADS]
            if not assembled.spills and warps > 1:
                trials.append(_option("num_warps", warps // 2))
        if stages is not None and stages > 1 and (by_shared or assembled.spills) and assembled.shared:
            trials.append(_option("num_stages", stages - 1))
    if any(access.width < access.possible for access in memory_accesses(assembled)):
        trials += [CompileTrial(name, 16, divisible=name) for name in _undivided(kernel)]
    return tuple(trials[:MAX_TRIALS])


def _option(name: str, value: int) -> CompileTrial:
    return CompileTrial(name, value, {name: value})


def _undivided(kernel: OwnKernel) -> list[str]:
    """Arguments that Triton does not know to be divisible by 16: pointers, then numbers, which it reads."""
    names = [
        name
        for name, kind in kernel.types.items()
        if (kind.startswith("*") or kind in ("i32", "i64", "u32", "u64"))
        and name not in kernel.divisible
        and name not in kernel.unused
    ]
    return sorted(names, key=lambda name: not kernel.types[name].startswith("*"))
