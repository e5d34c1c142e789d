"""What a launch does besides reading and writing its tensors: what its estimated time is made of."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class LaunchWork:
    """What all programs of a launch do, besides reading and writing each tensor once."""

    products: dict[str, int] = field(default_factory=dict)
    """Floating-point operations of `tl.dot`, by dtype; `tf32` is float32 with tensor cores."""
    iterations: int = 0
    """Of loops over a range."""
    atomic_sectors: int = 0
    """32-byte sectors that atomic operations change, each time they do."""
    changes: float = 0.0
    """How many times atomic operations change an element, at least: of the tensor in which it is most."""
