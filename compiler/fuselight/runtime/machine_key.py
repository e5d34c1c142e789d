"""What a tuned result holds for besides its graphs: the device, torch and Triton.

Invariant: reading it starts no GPU that the program does not use.
"""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch

from fuselight.environment import versions
from fuselight.report.tuned import TunedResult

_SECONDS = 5.0


@dataclass(frozen=True)
class MachineKey:
    """A device and the compilers of this process; the fields are those of `TunedResult`."""

    device: str
    capability: str
    torch: str
    triton: str

    def differences(self, result: TunedResult) -> Iterator[str]:
        """What a result was tuned for that is different here, in words."""
        for one in fields(self):
            tuned, here = getattr(result, one.name), getattr(self, one.name)
            if tuned != here:
                name = _WORDS[one.name]
                yield f"tuned for {name} {tuned or 'none'}, this is {here or 'none'}"


_WORDS = {"device": "device", "capability": "compute capability", "torch": "torch", "triton": "Triton"}


def machine_key(device: torch.device) -> MachineKey:
    """The key of a device of this process."""
    known = versions()
    name, capability = processor_name(), ""
    if device.type == "cuda":
        properties: Any = torch.cuda.get_device_properties(device)
        name, capability = str(properties.name).strip(), f"{properties.major}.{properties.minor}"
    return MachineKey(name, capability, str(torch.__version__), known.triton or "")


def processor_name(root: Path = Path("/")) -> str:
    """The processor's name as the manufacturer or the system reports it."""
    try:
        text = (root / "proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        text = ""
    reported = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    if reported is not None:
        return reported[1].strip()
    if sys.platform == "darwin":
        try:
            asked = subprocess.run(
                ["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"],
                capture_output=True, text=True, timeout=_SECONDS, check=True,
            )  # fmt: skip
            return asked.stdout.strip()
        except (OSError, subprocess.SubprocessError):
            pass
    return platform.processor() or platform.machine()
