"""What a tuned result holds for besides its graphs: the device, torch and Triton.

Invariant: reading it starts no GPU that the program does not use.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import torch

from fuselight.adapters.environment import versions
from fuselight.replay.processor_name import processor_name
from fuselight.shared.report.tuned import TunedResult


@dataclass(frozen=True)
class MachineKey:
    """A device and the compilers of this process; the fields are those of `TunedResult`."""

    device: str
    capability: str
    torch: str
    triton: str

    def differences(self, result: TunedResult) -> Iterator[str]:
        """What a result was tuned for that is different here, in words."""
        for field in fields(self):
            tuned, here = getattr(result, field.name), getattr(self, field.name)
            if tuned != here:
                name = _WORDS[field.name]
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
