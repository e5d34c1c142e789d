"""What identifies a run, and what identifies the worker that it runs in. Plain values, without torch or LSP."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fuselight.shared.report import Tier
from fuselight_server.base.formatting import format_target


@dataclass(frozen=True)
class Key:
    """What a run is about. `name` is empty for the file's `__main__` block.

    Runs of different tiers are runs apart: to ask for kernels supersedes no capture.
    """

    path: str
    name: str
    tier: Tier = Tier.CAPTURE
    kernel: str = ""
    """Tier kernels: the `text_key` of one kernel of the target that is compiled, instead of running anything."""
    disassemble: bool = False
    """Whether the SASS of that kernel is wanted as well."""

    @property
    def of_target(self) -> Key:
        """The key of the run that generated the kernel."""
        return replace(self, kernel="", disassemble=False)

    @property
    def as_capture(self) -> Key:
        """The key of the target's capture."""
        return Key(self.path, self.name)

    @property
    def is_timed(self) -> bool:
        """Whether the run times calls."""
        return self.tier in {Tier.MEASURED, Tier.TUNED}

    @property
    def has_own_worker(self) -> bool:
        """Whether the run takes minutes: it has a worker of its own, and supersedes no other run."""
        return self.is_timed or self.tier in {Tier.ACCURACY, Tier.MEMORY}

    @property
    def words(self) -> str:
        """How users read it: `Net`, `__main__`, `Net (kernels)`, `Net (a kernel)`, `Net (accuracy)`, `Net (memory)`."""
        what = {
            Tier.KERNELS: " (a kernel)" if self.kernel else " (kernels)",
            Tier.MEASURED: " (benchmark)",
            Tier.TUNED: " (tuning)",
            Tier.ACCURACY: " (accuracy)",
            Tier.MEMORY: " (memory)",
        }.get(self.tier, "")
        return format_target(self.name) + what


@dataclass(frozen=True)
class WorkerKey:
    """What shares a worker: one interpreter in one folder."""

    executable: str
    args: tuple[str, ...]
    folder: str
    environment: tuple[tuple[str, str], ...] = ()
    for_benchmarks: bool = False
    """Whether benchmarks, searches, comparisons of results and estimates of memory run in it: they take minutes, and
    what a save finds does not wait for them."""
