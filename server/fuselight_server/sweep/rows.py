"""A row of a sweep: what came of one task, as plain data that JSON lines, CSV and the page hold.

Invariant: a number that was not measured or counted is None, and a row without a result has a failure that says why.
Times are of one call, in microseconds.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Annotated

from fuselight.shared.codec import Between

SCHEMA = 1
"""Of the rows. Readers accept rows whose number is not larger than theirs."""

Amount = Annotated[float, Between(0.0, 1e15)]
"""A time; a row with one that no clock shows is a damaged row."""
Ratio = Annotated[float, Between(1e-9, 1e9)]
"""One time divided by another."""
Count = Annotated[int, range(2**63)]


class SweepJob(str, enum.Enum):
    """What is done with a model."""

    CHECK = "check"
    """TorchDynamo alone: graphs, breaks, recompilations."""
    KERNELS = "kernels"
    """Code generation for a device that may be absent."""
    BENCH = "bench"
    """Eager and compiled calls, timed and compared."""
    TUNE = "tune"
    """The search for the fastest verified configuration."""

    @property
    def is_timed(self) -> bool:
        """Whether it needs a device for itself."""
        return self in {SweepJob.BENCH, SweepJob.TUNE}


@dataclass(frozen=True)
class SweepAbout:
    """What a sweep is, as far as that is known; a field that is unknown is empty."""

    suite: str = ""
    path: str = ""
    """Where the suite is; the name itself of a built-in one."""
    engine: str = ""
    """What runs it, in words."""
    started: str = ""
    """UTC, as `2026-01-31T12:00:00Z`."""
    fuselight: str = ""
    """Version."""
    command: str = ""


class RowStatus(str, enum.Enum):
    """What came of a task."""

    DONE = "done"
    FAILED = "failed"
    """The model, the compiler or the environment failed."""
    LOST = "lost"
    """The worker or the node died, also at the second attempt."""
    ABSENT = "absent"
    """There is no such model here."""


@dataclass(frozen=True)
class RowFailure:
    """Why a row, or a configuration of it, has no result."""

    culprit: str
    """`user`, `compiler`, `fuselight`, `environment` (`Report.Culprit`)."""
    kind: str
    message: str
    next_step: str = ""
    place: str = ""
    """`model.py:12`, if known."""
    exception: str = ""
    """Type of the exception, if one was raised."""

    @property
    def cause(self) -> str:
        """What failures of several models have in common: `timeout`, `exception: ValueError`."""
        return f"{self.kind}: {self.exception}" if self.exception else self.kind


@dataclass(frozen=True)
class TimedConfiguration:
    """One configuration of a benchmark."""

    name: str
    us: Amount | None = None
    """Median, by the clock of the row."""
    low_us: Amount | None = None
    high_us: Amount | None = None
    """The range that another time must not overlap to differ."""
    is_unsteady: bool = False
    speedup: Ratio | None = None
    """Eager's time divided by this one's."""
    first_us: Amount | None = None
    """The first call, with its cold compile."""
    peak_bytes: Count | None = None
    is_accurate: bool | None = None
    """None: not compared."""
    graph_breaks: Count | None = None
    failure: RowFailure | None = None


@dataclass(frozen=True)
class SweepRow:
    """What came of one task."""

    id: str
    """What two sweeps compare: model, job and device."""
    key: str
    """A hash of all that the task depends on in its source and its options: `--resume` does not repeat it."""
    name: str
    job: SweepJob
    status: RowStatus
    schema: int = SCHEMA
    group: str = ""
    variant: str = ""
    """Which of several forms of the model it is."""
    path: str = ""
    target: str = ""
    device: str = ""
    """The device that was asked for; empty: none."""
    failure: RowFailure | None = None
    attempts: Count = 1
    seconds: Amount = 0.0
    started: str = ""
    """UTC, as `2026-01-31T12:00:00Z`."""
    node: str = ""
    """The machine that ran it."""
    python: str = ""
    torch: str = ""
    triton: str = ""
    fuselight: str = ""
    notes: tuple[str, ...] = ()
    graphs: Count | None = None
    breaks: Count | None = None
    recompilations: Count | None = None
    operators: Count | None = None
    """Operators of all captured graphs."""
    break_causes: dict[str, Count] = field(default_factory=dict)
    """Breaks by torch's own name of their cause."""
    recompilation_causes: dict[str, Count] = field(default_factory=dict)
    kernels: Count | None = None
    """Kernels that one call launches."""
    kernel_us: Amount | None = None
    """Estimated time of these kernels."""
    kernel_device: str = ""
    clock: str = ""
    """`device` or `wall`."""
    work: str = ""
    machine: str = ""
    """The driver's name of the device that was timed."""
    configurations: tuple[TimedConfiguration, ...] = ()
    winner: str = ""
    """Name of the configuration that a search chose."""
    gain: Ratio | None = None
    """Default's time divided by the winner's, from the confirming race."""
    gain_low: Ratio | None = None
    """Lower bound of `gain` (95%)."""

    @property
    def best(self) -> TimedConfiguration | None:
        """The winner of a search, else the fastest configuration with right results that is not eager."""
        if self.winner:
            return next(
                (configuration for configuration in self.configurations if configuration.name == self.winner),
                None,
            )
        timed = [
            configuration
            for configuration in self.configurations
            if configuration.speedup is not None
            and configuration.name != "eager"
            and configuration.is_accurate is not False
        ]
        return max(timed, key=lambda configuration: configuration.speedup or 0.0, default=None)

    @property
    def is_complete(self) -> bool:
        """Whether it has its whole result."""
        return self.status is RowStatus.DONE
