"""Write docs/devices.md from the catalogue, so that each figure is stated once.

`tests/test_docs.py` fails while the page is older than `fuselight.devices`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "compiler"))

from fuselight.devices import (  # noqa: E402 - found through the line above
    BANDWIDTH_REACHED,
    DEVICES,
    FALLBACK,
    LAUNCH_US,
    RATE_REACHED,
)
from fuselight.devices.choose import DTYPES, KEYS  # noqa: E402
from fuselight.report import Device  # noqa: E402

PAGE = ROOT / "docs" / "devices.md"

TEXT = """\
# Devices

<!-- Written by scripts/devices_page.py from compiler/fuselight/devices/: change that, then run the script. -->

Fuselight generates and estimates kernels for a target device, which this machine need not have. `fuselight.device`
selects it by the key below, the product name or the driver's name; case and spaces do not matter. **Fuselight: Choose
Target Device** lists all devices. `auto` is this machine's GPU, or `{fallback}` if there is none. For a GPU of this
machine, Fuselight uses the driver's figures; rates are always the published ones.

| key | the driver's name | arch | SMs | clock, MHz | memory, GB | GB/s | L2, MB |
|---|---|---|---|---|---|---|---|
{devices}

## Rates

Dense TFLOP/s (TOP/s for `i8`), as published, through tensor cores where there are any for the dtype. Data sheets that
give rates with sparsity only are halved. Where accumulation in FP16 is faster, as on GeForce cards, the rate here is
that with FP32 accumulation, which is how PyTorch multiplies matrices. A dtype with no rate has no unit on the device.

| key | {dtypes} |
|---|{dtype_rules}|
{rates}

## What a multiprocessor holds

| key | shared memory, KiB | of one block, KiB | registers | threads | blocks | warp |
|---|---|---|---|---|---|---|
{limits}

For NVIDIA's these follow from the compute capability: CUDA C++ Programming Guide, "Technical Specifications per
Compute Capability". The L2 of an MI300X is that of its 8 dies together.

## Estimates

An estimate, marked with `~`, is the likely time of one launch in microseconds:

```text
{launch} + sqrt((memory / {bandwidth})² + (compute / {rate:.2f})²)
```

`memory` is the bytes read and written divided by the memory bandwidth; `compute` is the FLOPs divided by the dtype's
rate. Loads and arithmetic overlap in part, so the total is longer than the longer of the two and less than their sum.
Unknown figures are left out; without any figure there is no estimate, as on `cpu`. The estimate also names what
limits the kernel: `memory`, `compute`, or `launch` if neither takes longer than {launch} microseconds.

The figures are of kernels measured on an H200 with torch 2.11: large kernels reach about {bandwidth:.0%} of its
bandwidth and {rate:.0%} of its rates, and the shortest kernel takes {launch} microseconds in a CUDA graph. Of 288
kernels of the six models that these were chosen by, half come within 12% of their estimate; of 334 kernels of six other
models, half within 32%.

What an estimate is not:

- **No measurement of another device.** All others are assumed to reach the same parts of their own rates, and to launch
  as fast.
- **No bound.** Some kernels take 2 to 100 times as long: small attention, depthwise convolutions, `topk` and sorting,
  pointwise kernels with much `erf` or `tanh` (only matrix multiplications, convolutions and attention have FLOPs here),
  and reductions that loop. Kernels that find their data in the cache can be faster.
- **Not the host's time.** Launching from Python costs more than the kernel, unless CUDA graphs are used.

[`fuselight bench`](bench.md) measures the real times on this machine's device.

## A device of your own

`fuselight.devices` adds to these, or replaces one of the same key:

```json
"fuselight.devices": {{
  "h100-nvl": {{ "like": "h100-pcie", "memoryGb": 94, "bandwidthGbs": 3900, "multiprocessors": 132 }}
}}
```

`like` gives every figure that is not written. Without it, `backend` (`cuda`, `hip`, `cpu`), `arch` (`"9.0"`,
`"gfx942"`), `multiprocessors` and `bandwidthGbs` are needed. The keys are {keys}; `tflops` is an object by dtype, with
the dtypes above.

## Sources

| key | |
|---|---|
{sources}
"""


def page() -> str:
    """The text of docs/devices.md."""
    gpus = [device for device in DEVICES if device.backend != "cpu"]
    return TEXT.format(
        fallback=FALLBACK,
        launch=LAUNCH_US,
        bandwidth=BANDWIDTH_REACHED,
        rate=RATE_REACHED,
        devices=_rows(_device(device) for device in DEVICES),
        dtypes=" | ".join(f"`{dtype}`" for dtype in DTYPES),
        dtype_rules="|".join("---" for _ in DTYPES),
        rates=_rows([_key(one), *(_number(one.tflops.get(dtype)) for dtype in DTYPES)] for one in gpus),
        limits=_rows(_limits(device) for device in gpus),
        keys=", ".join(f"`{key}`" for key in KEYS),
        sources=_rows([_key(device), device.source] for device in DEVICES),
    )


def _device(device: Device) -> list[str]:
    numbers = (
        device.multiprocessors,
        device.clock_mhz,
        device.memory_gb,
        device.bandwidth_gbs,
        device.l2_mb,
    )
    return [_key(device), device.name, device.arch, *map(_number, numbers)]


def _limits(device: Device) -> list[str]:
    numbers = (
        device.shared_sm_kb,
        device.shared_kb,
        device.registers,
        device.threads,
        device.blocks,
        device.warp,
    )
    return [_key(device), *map(_number, numbers)]


def _key(device: Device) -> str:
    return f"`{device.key}`"


def _number(value: float | None) -> str:
    """Nothing for what is not published."""
    return f"{value:,.10g}" if value else ""


def _rows(rows: Iterable[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"wrote {PAGE.relative_to(ROOT)}")
    sys.exit(0)
