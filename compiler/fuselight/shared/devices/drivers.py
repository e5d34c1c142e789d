"""Which driver supports which torch, and for which GPUs Triton compiles, by version numbers only.

Invariant: this module asks no driver.
"""

from __future__ import annotations

SMALLEST_CAPABILITY = (7, 0)
"""Of a CUDA device, for Triton."""


def serves(driver: str, built: str) -> bool:
    """Whether a driver for CUDA `driver` runs a torch that was built with CUDA `built`.

    Within one major version an older driver serves (CUDA's minor version compatibility).
    """
    return _major(driver) >= _major(built)


def update_driver(driver: str, built: str) -> str:
    """What to do where it does not."""
    return f"Update the driver to one for CUDA {built}, or install a torch that was built with CUDA {driver}"


def limited(visible: str | None) -> str:
    """CUDA_VISIBLE_DEVICES in brackets, to follow what torch sees; nothing where it is not set."""
    return f" (CUDA_VISIBLE_DEVICES={visible})" if visible is not None else ""


def _major(version: str) -> int:
    head = version.partition(".")[0]
    return int(head) if head.isdigit() else 0
