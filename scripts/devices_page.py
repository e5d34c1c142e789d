"""Write docs/devices.md from the catalogue, so that each figure is stated once.

`tests/test_docs.py` fails while the page is older than `fuselight.devices`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "compiler"))

from fuselight.shared.devices import BANDWIDTH_REACHED, DEVICES, FALLBACK, LAUNCH_US, RATE_REACHED  # noqa: E402 - found through the line above
from fuselight.shared.devices.choose import DTYPES, KEYS  # noqa: E402
from fuselight.shared.report import Device  # noqa: E402

PAGE = ROOT / "docs" / "devices.md"

TEXT = """\
# Devices

<!-- Written by scripts/devices_page.py from compiler/fuselight/shared/devices/: change that, then run the script. -->

Fuselight generates and estimates kernels for a target device, present on this machine or not. Set `fuselight.device`
to a key of this table, a product name or a driver's name; case and spaces do not matter. **Fuselight: Choose Target
Device** lists all devices. `auto` selects this machine's GPU, or `{fallback}` without one. For a GPU of this machine,
Fuselight uses the driver's figures. Rates are always the published ones.

| key | the driver's name | arch | SMs | clock, MHz | memory, GB | GB/s | L2, MB |
|---|---|---|---|---|---|---|---|
{devices}

## Rates

Published dense TFLOP/s (TOP/s for `i8`), with tensor cores if the device has them for the dtype. Rates that are
published only with sparsity are halved. Rates are those with FP32 accumulation, which PyTorch uses to multiply
matrices; some devices, such as GeForce cards, are faster with FP16 accumulation. An empty cell means that the device
has no unit for the dtype.

| key | {dtypes} |
|---|{dtype_rules}|
{rates}

## Limits of a multiprocessor

| key | shared memory, KiB | per block, KiB | registers | threads | blocks | warp |
|---|---|---|---|---|---|---|
{limits}

NVIDIA's limits follow from the compute capability (CUDA C++ Programming Guide, "Technical Specifications per Compute
Capability"). The L2 of an MI300X is the sum over its 8 dies.

## Estimates

An estimate, marked with `~`, is the likely time of one launch in microseconds:

```text
{launch} + sqrt((memory / {bandwidth})² + (compute / {rate:.2f})²)
```

`memory` is the bytes read and written divided by the memory bandwidth; `compute` is the FLOPs divided by the dtype's
rate. Loads and arithmetic overlap partly, so the total is between the longer of the two and their sum. Unknown
figures are omitted; a device without figures, such as `cpu`, has no estimates. The estimate also names what limits
the kernel: `memory`, `compute`, or `launch` if neither takes longer than {launch} microseconds.

The constants come from kernels measured on an H200 with torch 2.11: large kernels reach about {bandwidth:.0%} of its
bandwidth and {rate:.0%} of its rates, and the shortest kernel takes {launch} microseconds in a CUDA graph. The median
error is 12% over the 288 kernels of the six models used for calibration, and 32% over 334 kernels of six other
models.

For a Triton kernel of your own, `compute` is that of [a multiprocessor's units](triton.md#the-estimated-time).

An estimate has these limits:

- **Other devices are not measured.** They are assumed to reach the same shares of their own rates, and to launch as
  fast.
- **It is not a bound.** Some kernels take 2 to 100 times as long: small attention, depthwise convolutions, `topk` and
  sorting, pointwise kernels with many `erf` or `tanh` (only matrix multiplications, convolutions and attention count
  FLOPs), and reductions that loop. Kernels that find their data in the cache can be faster.
- **It excludes the host's time.** A launch from Python takes longer than a small kernel, unless CUDA graphs are used.

[`fuselight bench`](bench.md) measures the real times on this machine's device.

## A device of your own

`fuselight.devices` adds devices, or replaces those with the same key:

```json
"fuselight.devices": {{
  "h100-nvl": {{ "like": "h100-pcie", "memoryGb": 94, "bandwidthGbs": 3900, "multiprocessors": 132 }}
}}
```

`like` supplies the figures that you omit. Without `like`, `backend` (`cuda`, `hip`, `cpu`), `arch` (`"9.0"`,
`"gfx942"`), `multiprocessors` and `bandwidthGbs` are required. The keys are {keys}; `tflops` maps the dtypes above to
rates.

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
        rates=_rows([_key(gpu), *(_number(gpu.tflops.get(dtype)) for dtype in DTYPES)] for gpu in gpus),
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
