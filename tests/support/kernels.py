"""Sources of kernels that Inductor generated, and devices to compile them for."""

from __future__ import annotations

import re
from pathlib import Path

from fuselight.shared.report import Assembled, Device

KERNELS = Path(__file__).parent.parent / "recordings" / "kernels"
DEVICES = {
    "sm_80": Device("a100", "A100", "cuda", "8.0", 108, shared_kb=163, shared_sm_kb=164),
    "sm_90": Device("h100", "H100", "cuda", "9.0", 132, shared_kb=227, shared_sm_kb=228),
    "sm_100": Device("b200", "B200", "cuda", "10.0", 148, shared_kb=227, shared_sm_kb=228),
}
A100, H100 = DEVICES["sm_80"], DEVICES["sm_90"]
MI300X = Device(
    "mi300x", "MI300X", "hip", "gfx942", 304, shared_kb=64, shared_sm_kb=64, registers=131072, warp=64
)
STAGES = {"cuda": ["ttir", "ttgir", "llir", "ptx", "sass"], "hip": ["ttir", "ttgir", "llir", "amdgcn"]}
NO_TRITON = "no Triton in this Python: there is nothing to compile kernels with"


def source(name: str) -> str:
    """A recorded kernel."""
    return (KERNELS / f"{name}.txt").read_text(encoding="utf-8")


def with_line(line: str) -> str:
    """The pointwise kernel with an additional line before its store."""
    return source("pointwise").replace("    tl.store(", f"    {line}\n    tl.store(")


def line_of(text: str, code: str) -> int:
    """The only line that has `code`."""
    (line,) = [number for number, line in enumerate(text.split("\n"), 1) if code in line]
    return line


def lines_with(assembled: Assembled, stage: str, pattern: str) -> set[int]:
    """The source lines of the instructions that match."""
    listing = assembled.listings[stage]
    rows = zip(listing.text.split("\n"), listing.lines, strict=True)
    return {origin for row, origin in rows if re.search(pattern, row) and origin}
