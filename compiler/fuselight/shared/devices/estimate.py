"""Estimates the time of a kernel on a device: a roofline at the rates that kernels reach, plus the launch.

Invariant: an estimate is above 0 and grows with bytes and FLOPs. There is none if nothing is known about the device or
the kernel.
"""

from __future__ import annotations

import math

from fuselight.shared.devices.published import DEVICES
from fuselight.shared.report import Device

LAUNCH_US = 0.7
"""Microseconds that the shortest kernel takes: a Triton kernel of one block that loads, adds and stores 128 numbers,
launched 1,000 times over by one CUDA graph, takes 0.69 each on an H200 (torch 2.11). Launched one by one from Python
it is 9, which is the host's time and not in an estimate."""
BANDWIDTH_REACHED, RATE_REACHED = 0.85, 0.80
"""Parts of the published rates that large kernels reach, on an H200 (torch 2.11). Of 288 kernels of the six models that
they were chosen by, half come within 12 % of the estimate; of 334 kernels of six others, half within 32 %. At the
published rates themselves it is 37 % for the first.
"""

# What PyTorch's names of dtypes are called among the rates.
_RATES = {
    "float64": "f64",
    "double": "f64",
    "float32": "f32",
    "float": "f32",
    "float16": "f16",
    "half": "f16",
    "bfloat16": "bf16",
    "int8": "i8",
    "uint8": "i8",
}
# Without a unit for a dtype the work is done in the next wider one that has it.
_WIDER = {"f4": "f8", "f8": "f16", "bf16": "f32", "f16": "f32", "tf32": "f32"}
_FP8_OF_CDNA3 = frozenset({"gfx940", "gfx941", "gfx942"})
"""They have float8 without negative zero (`fnuz`); everyone else has OCP's."""


def rate(device: Device, dtype: str | None) -> float | None:
    """TFLOP/s of `dtype` (`bf16` or `torch.bfloat16`), or of the wider one that stands in for it; None: unknown."""
    name: str | None = _name(dtype)
    while name is not None and name not in device.tflops:
        name = _WIDER.get(name)
    return None if name is None else device.tflops[name]


def estimate(
    device: Device, bytes_: int | None, flops: int | None, dtype: str | None
) -> tuple[float, str] | None:
    """Return the likely microseconds and what most of them goes to: `memory`, `compute` or `launch`.

    `bytes_` is what is read and written, `flops` the floating-point operations in `dtype`; each is None where it is not
    known and then left out. None where neither can be counted with what is known of the device.
    """
    speed = rate(device, dtype)
    compute = max(flops, 0) / (speed * 1e6 * RATE_REACHED) if flops is not None and speed else None
    return estimate_beside(device, bytes_, compute)


def estimate_beside(device: Device, bytes_: int | None, compute_us: float | None) -> tuple[float, str] | None:
    """Return the same for a kernel whose multiprocessors are busy for `compute_us`; None: that is not known."""
    times = {}
    if bytes_ is not None and device.bandwidth_gbs > 0:
        times["memory"] = max(bytes_, 0) / (device.bandwidth_gbs * 1e3 * BANDWIDTH_REACHED)
    if compute_us is not None:
        times["compute"] = compute_us
    if not times:
        return None
    bound = max(times, key=lambda name: times[name])
    # Loads and arithmetic overlap in part: the whole is more than the longer of the two, and less than their sum.
    us = LAUNCH_US + math.hypot(*times.values())
    return us, bound if times[bound] > LAUNCH_US else "launch"


def lacks(device: Device, dtype: str) -> str | None:
    """Say in words that a device has no unit for `dtype`, what that means and what to do; None where it has one.

    None as well for a device whose rates are not known, and for dtypes that have no rates, as int64.
    """
    name, shown = _name(dtype), dtype.removeprefix("torch.")
    if not device.tflops or name is None:
        return None
    kind = _other_float8(device, shown)
    if kind is not None:
        return f"{_called(device)} has no {shown}, only {kind}. Use that kind of float8 for it."
    if name in device.tflops:
        return None
    have = [
        other_device.key
        for other_device in DEVICES
        if name in other_device.tflops and other_device.backend == device.backend
    ]
    others = f" These have it: {', '.join(have)}." if have else ""
    means = _E5M2 if shown.startswith("float8_e5m2") else _MEANS.get(name, "it is computed in a wider dtype")
    return f"{_called(device)} has no {shown}: {means}.{others}"


_MEANS = {
    "f4": "kernels in it cannot be generated. Use a wider dtype, or choose another device",
    # Triton: "type fp8e4nv not supported in this architecture".
    "f8": "kernels with it cannot be compiled. Use bfloat16, or choose another device",
    # Inductor: "does not support bfloat16 compilation natively, skipping".
    "bf16": "torch.compile leaves code with it to eager. Use float16, or choose another device",
    "tf32": "float32 matrix multiplications run at the rate of float32, whatever the precision is set to",
    "i8": "it is multiplied without tensor cores",
}
_E5M2 = (
    "it can be stored and converted, but not multiplied as matrices. Use bfloat16, or choose another device"
)


def _other_float8(device: Device, dtype: str) -> str | None:
    """Which float8 the device has in place of the one that is named; None where there is nothing to say."""
    if "f8" not in device.tflops or not dtype.startswith(("float8_e4m3fn", "float8_e5m2")):
        return None
    if device.arch in _FP8_OF_CDNA3:
        return None if dtype.endswith("fnuz") else f"{dtype.removesuffix('fn')}fnuz"
    if dtype.endswith("fnuz"):
        return "float8_e4m3fn" if dtype.startswith("float8_e4m3") else "float8_e5m2"
    return None


def _name(dtype: str | None) -> str | None:
    """The rate's name of a dtype; None for one that has none."""
    if dtype is None:
        return None
    short = dtype.removeprefix("torch.").lower()
    if short.startswith("float8"):
        return "f8"
    if short.startswith("float4"):
        return "f4"
    short = _RATES.get(short, short)
    return short if short in _WIDER or short in ("f64", "f32", "i8") else None


def _called(device: Device) -> str:
    if device.backend == "cuda":
        return f"{device.name} (compute capability {device.arch})"
    return f"{device.name} ({device.arch})" if device.arch else device.name
