"""Records what AOTAutograd and TorchInductor generate from captured graphs for a device, as parts of a Report."""

from __future__ import annotations

from fuselight.capture.inductor.compilation import Compilation as Compilation
from fuselight.capture.inductor.generation import Generation as Generation
