"""The user's own Triton kernels as a run lists them, with texts of Triton 3.7."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from fuselight.shared.codec import decode
from fuselight.shared.report import (
    Assembled,
    Device,
    KernelConfiguration,
    LaunchConfig,
    Location,
    Occupancy,
    OwnKernel,
    Report,
    data_key,
)
from fuselight_server.commands.fastest_configurations import write_fastest
from tests.support.reports import ROOT, report

KERNELS_FILE = f"{ROOT}/kernels.py"
_RECORDED = json.loads(
    (Path(__file__).parent.parent / "recordings" / "own_kernels.json").read_text(encoding="utf-8")
)
DEVICE = decode(Device, _RECORDED["device"])


def written_fastest(folder: Path, text: str, kernel: OwnKernel) -> tuple[str, str]:
    """A file with `text` after its autotuner was left with its fastest configurations, and why it was not."""
    file = folder / "kernels.py"
    file.write_text(text, encoding="utf-8")
    kernel = replace(kernel, location=replace(kernel.location, path=str(file)))
    kept = write_fastest([replace(own_report(kernel), files={str(file): data_key(text.encode())})])
    return file.read_text(encoding="utf-8"), "".join(entry.refusal for entry in kept)


def recorded() -> list[OwnKernel]:
    """Kernels of tests/recordings/own_kernels.json, whose lines are those of `KERNELS_FILE`."""
    return [decode(OwnKernel, data) for data in _RECORDED["kernels"]]


def recorded_kernel(name: str, **values: str) -> OwnKernel:
    """The recorded kernel of that name with these values."""
    (kernel,) = [
        kernel for kernel in recorded() if kernel.name == name and values.items() <= kernel.values.items()
    ]
    return kernel


def own_kernel(name: str = "add", line: int = 4, **changes: Any) -> OwnKernel:
    """A kernel with 64 registers and half of the warps."""
    assembled = Assembled(
        registers=64, spills=0, shared=48_000, num_warps=4, occupancy=Occupancy(32, 64, 8, "registers")
    )
    kernel = OwnKernel(
        name,
        Location(KERNELS_FILE, line),
        line + 3,
        types={"x": "*fp32", "n": "i32", "BLOCK": "constexpr"},
        divisible=("x",),
        values={"n": "1000", "BLOCK": "128"},
        num_warps=4,
        num_stages=3,
        grid=(8, 1, 1),
        launches=1,
        estimate_us=12.2,
        assembled=assembled,
    )
    return replace(kernel, **changes)


def tuned_kernel(*times: float | None) -> OwnKernel:
    """An autotuned kernel, whose configurations took these times, in microseconds."""
    configurations = tuple(
        KernelConfiguration(
            LaunchConfig({"BLOCK": 128 << at}, 4, 3),
            f'triton.Config({{"BLOCK": {128 << at}}}, num_warps=4, num_stages=3)',
            (8 >> at, 1, 1),
            measured_us=us,
        )
        for at, us in enumerate(times)
    )
    decorator = Location(KERNELS_FILE, 2)
    return own_kernel(
        configurations=configurations, chosen=0, key=("n",), key_values=("1000",), decorator=decorator
    )


def own_report(*kernels: OwnKernel) -> Report:
    """A report of a run that launched these kernels."""
    return report(roots=(ROOT,), own_kernels=kernels, own_kernels_device=DEVICE)
