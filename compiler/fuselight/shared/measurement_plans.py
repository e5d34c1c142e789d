"""What a benchmark measures and a search tries: what their requests carry, and what use cases and runners read.

Standard library only. A plan changes with what is measured, and the protocol with how processes talk.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fuselight.shared.report import Numerics, Work


@dataclass(frozen=True)
class MeasurePlan:
    """What to measure of a target, and how (docs/measuring.md)."""

    configurations: tuple[str, ...] = ()
    """In the notation of `fuselight.shared.configurations`. Eager is always measured, because all others are compared
    with it. Empty: the target as the source compiles it, else as `torch.compile` does by default."""
    work: Work | None = None
    """None: inference, or forward and backward where the target's inputs say `train=True`."""
    call: int = 0
    """Index of the call among the calls that the inputs give."""
    rounds: int = 10
    """Number of interleaved rounds; fewer if a call takes long."""
    seconds: float = 2.0
    """Approximate duration of one configuration's timed calls, all rounds together."""
    limit_seconds: float = 600.0
    """Time limit of one configuration, including its compile; 0 means no limit."""
    cold_cache: bool = False
    """Whether to clear the device's L2 before each timed call."""
    accuracy: bool = True
    bisect: bool = True
    """Whether to look for the first line that differs where accuracy fails."""
    profile: bool = True
    isolated: bool = False
    """Whether to also time each generated kernel alone."""
    estimates_memory: bool = False
    """Whether the peak of tensors is also estimated, after all that is measured."""
    device: str = ""
    """`cpu`, `cuda`, `cuda:1`; empty: the GPU if there is one, else the CPU."""
    keep_caches: str = ""
    """An empty folder that keeps the caches of the configurations, as `NAME/inductor` and `NAME/triton`, so that other
    processes can run the same compiled code. Empty: they are deleted with the run."""
    kernel_cache: str = ""
    """A folder for Triton's cache that all configurations share, so that a kernel compiles once. Empty: each has its
    own, so that a first call is a cold call."""
    inductor_cache: str = ""
    """A folder for Inductor's caches and Triton's, which other processes fill or use. Empty: of its own."""
    timings: str = ""
    """A folder for what Inductor finds out by timing, which other processes fill or use: which multiplications are
    padded, and of configurations that time kernels also the times of implementations of multiplications (what is fused
    with them is timed again) and the launch configurations of generated kernels. Kernels are timed while the host is
    ahead of the GPU, then. Empty: of its own, and timed as in the user's own program."""
    compile_threads: int = 0
    """Processes with which each configuration compiles kernels; 0: as many as in the user's own program."""


@dataclass(frozen=True)
class TunePlan:
    """What to search, and how (docs/tuning.md)."""

    work: Work | None = None
    """As in `MeasurePlan`."""
    call: int = 0
    """As in `MeasurePlan`."""
    device: str = ""
    """As in `MeasurePlan`."""
    budget_seconds: float = 120.0
    """Duration of the whole search, compiles included. One compile that has no time left is ended; `default` is always
    measured."""
    numerics: Numerics = Numerics.EXACT
    fixed_modules: bool = False
    """Whether candidates may skip the guards on modules, because none changes after the first call."""
    candidates: tuple[str, ...] = ()
    """Further configurations to try, in the notation of `fuselight.shared.configurations`, whatever their ceiling."""
    only: bool = False
    """Whether to try `candidates` alone."""
    modes: tuple[str, ...] = ()
    """torch's own modes to measure too, after the search and beyond its budget, for comparison."""
    rounds: int = 10
    """Rounds of the confirming race; fewer if a call takes long."""
    seconds: float = 2.0
    """Approximate duration of one configuration's timed calls in the confirming race."""
    limit_seconds: float = 600.0
    """Time limit of one configuration, beyond which it fails whatever the budget; 0 means no limit."""
    memory_mb: int = 0
    """Memory limit of one configuration with all that it has started, in MiB, beyond which it fails; 0 means none."""
    jobs: int = 0
    """Compiles that run side by side; 0: as many as the cores and the memory allow."""
    accuracy: bool = True
    estimates_memory: bool = False
    """As in `MeasurePlan`; it is not part of the budget."""
    fixed: dict[str, str] = field(default_factory=dict)
    """Texts of files with verified fixes, by path: a further base for candidates, named with `+fixes`."""
    fixes: tuple[str, ...] = ()
    """Titles of those fixes."""
    artifacts: str = ""
    """A folder for the winner's saved cache artifacts, which takes one more compile after the budget; empty: none are
    saved."""
