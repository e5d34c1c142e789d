"""What AOTAutograd and TorchInductor make of captured graphs for a device, as parts of a Report."""

from __future__ import annotations

from fuselight.inductor.generation import Generation

__all__ = ["Generation"]
