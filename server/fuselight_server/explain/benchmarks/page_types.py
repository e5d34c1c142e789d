"""The data of a benchmark's page: one field is one column, or one part, of what the editor and the exports show.

Invariant: no field has a default, so that every page has every key; None is unknown. Times are those of one call, in
microseconds. After a change, run `scripts/message_types.py`, which writes the same types for the editor.
"""

from __future__ import annotations

from dataclasses import dataclass

from fuselight.shared.report import Clock, TensorError
from fuselight_server.explain.pages.page_data import PageHead


@dataclass(frozen=True)
class MachineFact:
    """A fact of the machine, as text."""

    name: str
    value: str


@dataclass(frozen=True)
class PagePlace:
    """A line of source, where it is now."""

    uri: str
    """Empty for a line that is gone: there is nothing to open."""
    path: str
    """The path as the page shows it."""
    line: int
    """0-based."""
    text: str
    """The source of the line."""


@dataclass(frozen=True)
class AccuracyCell:
    """Whether a configuration computes what eager does."""

    passed: bool | None
    """None if results were not compared; `text` says why."""
    text: str
    tensors: tuple[TensorError, ...]
    place: PagePlace | None


@dataclass(frozen=True)
class MemoryCell:
    """The peak of tensors in one call."""

    text: str
    """All of it in words."""
    tensor_bytes: int | None
    """By the allocator; None if it was not measured."""
    estimated_bytes: int | None
    reserved_bytes: int | None
    """What the allocator had of the driver; None on a CPU."""
    between_bytes: int | None
    """Fragmentation: unused bytes in segments with tensors, at the end of the call; None on a CPU."""


@dataclass(frozen=True)
class ConfigurationRow:
    """One configuration."""

    name: str
    failure: str | None
    speedup: float | None
    """Eager's median divided by this configuration's, both by `clock`."""
    us: float | None
    spread: float | None
    """0.01 is ± 1%."""
    unsteady: bool
    clock: Clock | None
    wall_us: float | None
    first_us: float | None
    second_us: float | None
    calls: int
    peak_bytes: int | None
    own_bytes: int | None
    memory: MemoryCell | None
    """None if it was neither measured nor estimated."""
    accuracy: AccuracyCell | None
    graph_breaks: int | None
    compiles: int | None
    recompiles: int | None
    notes: tuple[str, ...]


@dataclass(frozen=True)
class LineRow:
    """The time of one line."""

    place: PagePlace
    us: float
    share: float
    """Share of the time of all lines, 0 to 1."""
    kernels: tuple[str, ...]


@dataclass(frozen=True)
class WallPart:
    """A part of the wall time: a kernel or a gap."""

    kind: str
    """Kernels: `kernel`, `kernel_eager`, `kernel_copy`. Gaps: `launch`, `guards`, `sync` and so on. Backends other than
    Inductor: `kernel_backend`, `backend`. Otherwise `unknown`."""
    label: str
    """The kind as text."""
    us: float
    share: float
    place: PagePlace | None
    what: str


@dataclass(frozen=True)
class KernelRow:
    """A kernel that was launched."""

    name: str
    kind: str
    us: float
    low_us: float
    high_us: float
    share: float
    count: float
    estimate_us: float | None
    isolated_us: float | None
    bandwidth_gbs: float | None
    tflops: float | None
    of_limit: float | None
    """The achieved share of the device's limit, 0 to 1."""
    joined: bool
    place: PagePlace | None
    phase: str


@dataclass(frozen=True)
class RooflinePoint:
    """A kernel with its arithmetic and its traffic."""

    name: str
    intensity: float
    """FLOP per byte."""
    tflops: float
    us: float
    place: PagePlace | None


@dataclass(frozen=True)
class RooflinePeak:
    """The device's rate for a dtype."""

    dtype: str
    tflops: float


@dataclass(frozen=True)
class Roofline:
    """Kernels against the device's limits."""

    points: tuple[RooflinePoint, ...]
    bandwidth_gbs: float
    peaks: tuple[RooflinePeak, ...]


@dataclass(frozen=True)
class StepRow:
    """A phase of the cold compile. Phases are nested."""

    name: str
    start_us: float
    us: float
    depth: int
    place: PagePlace | None
    compile_id: str | None
    sampled: bool
    """Whether sampling measured it."""


@dataclass(frozen=True)
class ProfileDetails:
    """The profile of one configuration."""

    source: str
    """The source of the profile; empty without a profile: only `steps` is known."""
    wall_us: float
    kernel_us: float
    joined: float
    """The share of the device's time that has a line, 0 to 1."""
    lines: tuple[LineRow, ...]
    no_lines: str
    """Why kernels have no lines; empty if they have."""
    where: tuple[WallPart, ...]
    """Adds up to `wall_us`."""
    kernels: tuple[KernelRow, ...]
    roofline: Roofline | None
    """None if the device's limits are unknown."""
    steps: tuple[StepRow, ...]


@dataclass(frozen=True)
class PastRun:
    """A run of the history."""

    id: str
    when: str
    device: str
    label: str


@dataclass(frozen=True)
class ConfigurationChange:
    """The time of a configuration in two runs."""

    name: str
    before_us: float
    after_us: float
    change: float | None
    """0.12 is +12%; None if the change is within both spreads."""


@dataclass(frozen=True)
class LineChange:
    """The time of a line in two runs."""

    place: PagePlace
    before_us: float | None
    after_us: float | None
    change: float | None


@dataclass(frozen=True)
class RunComparison:
    """What changed since another run."""

    id: str
    label: str
    differs: tuple[str, ...]
    """Differences between the runs other than the code, as text."""
    configurations: tuple[ConfigurationChange, ...]
    lines: tuple[LineChange, ...]


@dataclass(frozen=True)
class VerdictLine:
    """A sentence of the verdict."""

    text: str
    place: PagePlace | None
    configuration: str
    """The configuration that it names; empty for a detail of the headline."""


@dataclass(frozen=True)
class MeasuredPage(PageHead):
    """The page of a benchmark."""

    run: str | None
    """The id of the shown run in `history`; None if it is not there."""
    partial: bool
    """Whether results are missing: the benchmark is still running, or it ended early."""
    target: str
    path: str
    """The file as the page shows it."""
    uri: str
    when: str
    """UTC, ISO."""
    work: str
    inputs: tuple[str, ...]
    verdict: tuple[VerdictLine, ...]
    """The headline is first."""
    machine: tuple[MachineFact, ...]
    notes: tuple[str, ...]
    configurations: tuple[ConfigurationRow, ...]
    profiles: dict[str, ProfileDetails]
    """By configuration name."""
    history: tuple[PastRun, ...]
    comparison: RunComparison | None
