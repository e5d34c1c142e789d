"""From where on facts become a finding, which commands have as options before anything else is loaded."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Thresholds:
    """From where on facts become a finding. 0 switches the check off."""

    guard_count: int = 5000
    """Guards of one frame. A 12-layer GPT-2 has 3,000, checked in 0.1 ms, which is nothing to warn of."""
    guard_us: float = 0.0
    """Microseconds of one full check of one frame's guards. By default off: a measured time differs between runs."""
    kernel_share: float = 0.05
    """Copies and graph breaks are reported from this share of the estimated time of a target's kernels."""
    repeats: int = 6
    """From this many equal instances of a module, or equal graphs, a finding advises to compile only one."""


DEFAULT_THRESHOLDS = Thresholds()
