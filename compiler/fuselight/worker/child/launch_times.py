"""How long a launch of the user's own Triton kernel is likely to take: a model of a multiprocessor's units.

Invariant: a time is made of what was counted (bytes, multiplications, instructions of the compiled loop, programs) and
of the device's throughputs. There is none, but a reason, where a count is missing or no throughput describes it. The
throughputs beside those of the catalogue were measured by themselves on an H200 (docs/results/triton.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuselight.shared import kernel_forms
from fuselight.shared.devices import BANDWIDTH_REACHED, LAUNCH_US, RATE_REACHED, estimate_beside, rate
from fuselight.shared.dot_loops import dot_loops, loading_loops, matrix_loop
from fuselight.shared.report import Assembled, Device

if TYPE_CHECKING:
    from fuselight.adapters.triton_api.launches.launch_work import LaunchWork
    from fuselight.adapters.triton_api.launches.specializations import LaunchedSpecialization

_STARTS = 0.85
"""Programs that a device begins in a cycle: an H200 begins one every 0.61 ns, whatever its warps."""
CACHE_BYTES = {"8.0": 5120, "9.0": 5120}
"""Bytes that the L2 cache gives in a cycle, by compute capability: NVIDIA A100 Tensor Core GPU Architecture (2020); an
H200 reads 8.3 TB/s, 83% of it."""
WARP_PART = {"9.0": 0.6}
"""Part of the published rates that matrix instructions of a warp (`mma.sync`) reach, by compute capability: those of a
warpgroup have all of it."""
LATENCY_US = 0.35
"""From a load to its value: 354 ns from the memory of an H200, 154 ns from its L2 cache."""
ATOMIC_SECTORS = 32
"""Sectors of 32 bytes that atomic operations change in a cycle, anywhere in memory: 59 in a nanosecond on an H200."""
_CONTENDED = 64
"""Changes of an element by atomic operations from which on they may wait for each other."""
_CHANGE_US = 0.002
"""From one change of an element to the next one: 65,536 of one number take 134 µs on an H200."""
_CONTENDED_PART = 0.025
"""Part of the time that these changes take at least, from which on no time is estimated."""
_UNROLLED = 4
"""Iterations of a loop whose loads a compiler makes at once, if it can."""
_GROUP = 4
"""Warps of a warpgroup."""


class NotEstimatedError(Exception):
    """A launch has no estimated time; the message is the reason, as a noun phrase."""


CONTENDED = "contended atomic operations"
NOT_COUNTED = "programs that were not computed"
SCALED = "`tl.dot_scaled`"


@dataclass(frozen=True)
class _Grid:
    """The programs of a launch on the multiprocessors of a device."""

    programs: int
    multiprocessors: int
    resident: int
    """Programs that a multiprocessor holds at once."""
    num_warps: int

    @property
    def most(self) -> int:
        """Programs of the multiprocessor that has most of them."""
        return -(-self.programs // self.multiprocessors)

    @property
    def idle(self) -> float:
        """How many times longer the busiest multiprocessor takes than all of them would with equal parts."""
        return self.most * self.multiprocessors / self.programs

    @property
    def rounds(self) -> int:
        """Programs that run one after the other."""
        return -(-self.most // self.resident)

    @property
    def warps(self) -> int:
        """Warps of a multiprocessor that run at once."""
        return min(self.most, self.resident) * self.num_warps


def launch_cost(
    moved: int, specialization: LaunchedSpecialization, assembled: Assembled, device: Device
) -> tuple[float, str] | None:
    """Likely microseconds of a launch that moves so many bytes, and what most of them goes to; None: an unknown device.

    Raises NotEstimatedError.
    """
    grid = _grid(specialization, assembled, device)
    text = assembled.listings["ttir"].text
    work = specialization.work
    busy = waited = None
    if "tt.dot" in text:
        busy = None if "tt.dot_scaled" in text or grid is None else _busy(work, assembled, device, grid)
        if busy is None:
            raise NotEstimatedError(SCALED if "tt.dot_scaled" in text else NOT_COUNTED)
    elif grid is not None:
        waited = _waited(work, assembled, device, grid)
    if work is not None and work.atomic_sectors and device.clock_mhz:
        busy = (busy or 0.0) + work.atomic_sectors / (device.clock_mhz * ATOMIC_SECTORS)
    cost = estimate_beside(device, moved, busy)
    if cost is None:
        return None
    us, bound = cost
    us += LATENCY_US if "tt.load" in text else 0.0  # nothing is stored before
    for other, name in (
        (
            LAUNCH_US + grid.programs / (device.clock_mhz * _STARTS) if grid and device.clock_mhz else 0.0,
            "launch",
        ),
        (LAUNCH_US + waited if waited else 0.0, "latency"),
    ):
        us, bound = (other, name) if other > us else (us, bound)
    changes = work.changes if work is not None else 0.0
    if changes >= _CONTENDED and changes * _CHANGE_US > us * _CONTENDED_PART:
        raise NotEstimatedError(CONTENDED)
    return us, bound


def _waited(work: LaunchWork | None, assembled: Assembled, device: Device, grid: _Grid) -> float:
    """Microseconds that programs wait in loops without `tl.dot`, one iteration after the other."""
    code = assembled.listings.get("ptx")
    loops = loading_loops(code.text) if code is not None else []
    if not loops or not device.clock_mhz:
        return 0.0
    if work is None:
        raise NotEstimatedError(NOT_COUNTED)
    each = sum(
        LATENCY_US / (_UNROLLED if loop.is_unrolled else 1) + loop.steps / device.clock_mhz for loop in loops
    )
    return grid.rounds * work.iterations / grid.programs * each / len(loops)


def _grid(specialization: LaunchedSpecialization, assembled: Assembled, device: Device) -> _Grid | None:
    programs = math.prod(specialization.grid or (0,))
    if programs < 1 or device.multiprocessors < 1:
        return None
    resident = assembled.occupancy.blocks if assembled.occupancy is not None else 1
    return _Grid(programs, device.multiprocessors, resident, assembled.num_warps or _GROUP)


def _busy(work: LaunchWork | None, assembled: Assembled, device: Device, grid: _Grid) -> float | None:
    """Microseconds for which the multiprocessors are busy with `tl.dot` and what its loops do besides."""
    products = work.products if work is not None else {}
    code = assembled.listings.get("ptx")
    instructions = matrix_loop(code.text) if code is not None else None
    rates = _rates_of_products(products, assembled, device)
    if not rates:
        return None
    part = WARP_PART.get(device.arch, 1.0) if instructions is not None and instructions.by_warp else 1.0
    multiplied = sum(
        products[dtype] / (speed * 1e6 * RATE_REACHED * (1.0 if name == "f32" else part))
        for dtype, (name, speed) in rates.items()
    )
    multiplied *= grid.idle
    loops = dot_loops(assembled.listings["ttir"].text)
    if loops is None or not device.clock_mhz:
        return multiplied
    total = sum(products.values())
    steps = total / loops.flops
    computed, waited, agents = multiplied, 0.0, grid.warps
    if instructions is not None:
        cycles = total / instructions.flops / (device.multiprocessors * device.clock_mhz) * grid.idle
        agents = grid.warps if instructions.by_warp else max(1, grid.warps // _GROUP)
        # A warp or warpgroup does one after the other: only others fill its gaps.
        computed = _overlapped(multiplied, cycles * instructions.issued, agents)
        waited = cycles * instructions.shared
    is_ahead = instructions is not None and instructions.is_ahead
    ahead = max(1, (assembled.num_stages or 1) - 1) if is_ahead else 1
    latency = grid.rounds * steps / grid.programs * loops.count * LATENCY_US / ahead if loops.loaded else 0.0
    cached = (
        steps * loops.loaded / (CACHE_BYTES[device.arch] * device.clock_mhz * BANDWIDTH_REACHED)
        if device.arch in CACHE_BYTES
        else 0.0
    )
    waited = max(waited, latency, cached)
    return max(computed, waited) if is_ahead else _overlapped(computed, waited, min(grid.most, grid.resident))


def _overlapped(first: float, second: float, agents: int) -> float:
    """Time of two kinds of work, of which each of so many agents does one after the other."""
    return max(first, second) + min(first, second) / agents


def _rates_of_products(
    products: dict[str, int], assembled: Assembled, device: Device
) -> dict[str, tuple[str, float]]:
    """Of each dtype of `tl.dot`, name and TFLOP/s of the units that multiply it; empty where one is not known."""
    with_matrices = {use.dtype for use in kernel_forms.dots(assembled) if use.instruction}
    rates = {}
    for dtype in products:
        has_units = any(_is_dtype(of_code, dtype) for of_code in with_matrices)
        name = dtype if has_units or dtype in {"f32", "f64"} else "f32"
        speed = rate(device, name)
        if not speed:
            return {}
        rates[dtype] = name, speed
    return rates


def _is_dtype(of_code: str, dtype: str) -> bool:
    """Whether MLIR's name of a dtype is that of a rate."""
    return of_code == {"tf32": "f32"}.get(dtype, dtype) or (dtype == "f8" and of_code.startswith("f8"))
