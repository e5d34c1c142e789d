"""Write docs/devices.md from the catalogue, so that each figure is stated once.

`tests/test_docs.py` fails while the page is older than `fuselight.devices`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "compiler"))

from fuselight.devices import DEVICES, FALLBACK, LAUNCH_US  # noqa: E402 - found through the line above
from fuselight.devices.choose import DTYPES, KEYS  # noqa: E402
from fuselight.report import Device  # noqa: E402

PAGE = ROOT / "docs" / "devices.md"

TEXT = """\
# Devices

<!-- Written by scripts/devices_page.py from compiler/fuselight/devices/: change that, then run the script. -->

The device that kernels are generated for and estimated on need not be there. `fuselight.device` names it, by the key
below, the name on the box or the driver's name, in any case and spacing; **Fuselight: Choose Target Device** lists them
all. `auto` is the GPU that is there, else `{fallback}`. Of a GPU that is there the driver's own figures are used; rates
are always the published ones.

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

A kernel takes as long as its bytes at the memory bandwidth or its FLOPs at the rate of its dtype, whichever is longer,
and at least {launch} microseconds, which the shortest kernel takes in a CUDA graph on an H200. This is a bound from
below: real kernels reach a part of the published rates, and launching from Python costs the host more than that. What
is not known is left out of the bound; without any figure there is no estimate, as on `cpu`.

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
