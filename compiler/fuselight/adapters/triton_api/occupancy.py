"""How many blocks of a kernel a multiprocessor holds at once, from the device's figures.

Invariant: the rule is the vendor's published one (NVIDIA's occupancy calculator; the allocation of vector registers in
AMD's instruction set guides), over whole blocks; no GPU is asked.
"""

from __future__ import annotations

from fuselight.shared.report import Device, Occupancy


def occupancy(
    device: Device, *, registers: int | None, shared: int | None, num_warps: int | None
) -> Occupancy | None:
    """None where a figure of the kernel's or the device's is unknown, or a block does not fit at all."""
    most = device.threads // device.warp if device.warp else 0
    if registers is None or shared is None or num_warps is None:
        return None
    if num_warps < 1 or most < 1:
        return None
    # The first of equals is named: a kernel that fills the device is limited by the device's warps.
    limits = {
        "warps": most // num_warps,
        "registers": _by_registers(device, registers, num_warps),
        "shared memory": _by_shared(device, shared),
        "blocks": device.blocks,
    }
    known = {name: limit for name, limit in limits.items() if limit is not None}
    limited_by = min(known, key=lambda name: known[name])
    blocks = known[limited_by]
    return Occupancy(blocks * num_warps, most, blocks, limited_by) if blocks > 0 else None


def _by_registers(device: Device, registers: int, num_warps: int) -> int | None:
    if registers <= 0 or device.registers <= 0:
        return None
    if device.backend == "hip":
        # Vector registers are handed out to a wave in steps of 8, on each of the 4 SIMD units apart.
        a_wave = _up(registers, 8) * device.warp
        return device.registers // 4 // a_wave * 4 // num_warps
    # Registers are handed out to a warp in steps of 256, on each of the 4 partitions apart; whether a block fits is
    # asked as if it took the same number on each.
    a_warp = _up(registers * device.warp, 256)
    if a_warp * _up(num_warps, 4) > device.registers:
        return 0
    return device.registers // 4 // a_warp * 4 // num_warps


def _by_shared(device: Device, shared: int) -> int | None:
    if device.shared_sm_kb <= 0:
        return None
    if device.backend == "hip":
        return device.shared_sm_kb * 1024 // _up(shared, 512) if shared else None
    modern = device.capability[0] >= 8  # noqa: PLR2004 - Ampere
    # From Ampere on the driver keeps 1 KiB of each block.
    a_block = _up(shared + 1024, 128) if modern else _up(shared, 256)
    return device.shared_sm_kb * 1024 // a_block if a_block else None


def _up(value: int, step: int) -> int:
    return -(-value // step) * step
