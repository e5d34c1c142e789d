"""Benchmark results of a target: each configuration of torch.compile compared with eager in time, memory and accuracy.

Invariant: every time here was measured, and its field names the clock; these types never hold an estimate. Times are of
ONE call of the target unless a field says otherwise. A value that could not be measured is None, with a reason in a
nearby field.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Annotated

from fuselight.shared.codec import Between
from fuselight.shared.report.failure import Failure
from fuselight.shared.report.kernels import GeneratedGraph
from fuselight.shared.report.memory import MeasuredMemory
from fuselight.shared.report.place import Location, Stack

Microseconds = Annotated[float, Between(1e-6, 1e15)]
"""A time of a call, by which others are divided."""


class Work(str, enum.Enum):
    """The work of one call."""

    INFERENCE = "inference"
    FORWARD_BACKWARD = "forward_backward"
    TRAINING_STEP = "training_step"
    """Forward, backward, and an optimizer step (SGD over the parameters)."""


class Clock(str, enum.Enum):
    """The clock of a time."""

    WALL = "wall"
    """The host's clock around a call including the wait for it."""
    DEVICE = "device"
    """Events on the device's stream before and after a call."""


@dataclass(frozen=True)
class Timing:
    """One call in its steady state, microseconds."""

    clock: Clock
    median_us: Microseconds
    low_us: Microseconds
    """First quartile of `rounds_us`."""
    high_us: Microseconds
    """Third quartile."""
    calls: int
    """Timed calls in all rounds together."""
    rounds_us: tuple[Microseconds, ...] = ()
    """The median of each round, in order: rounds of the configurations are interleaved."""
    unsteady: bool = False
    """Whether the spread is too wide to compare differences of a few percent."""
    earlier_us: tuple[Microseconds, ...] = ()
    """Medians of earlier benchmarks of the same code on this machine, if it is unsteady or limited by the host: each
    was measured in another process."""

    @property
    def spread(self) -> float:
        """Half of the interquartile range as a fraction of the median: 0.01 is ± 1%."""
        return (self.high_us - self.low_us) / 2 / self.median_us if self.median_us else 0.0


@dataclass(frozen=True)
class TensorError:
    """The error of one tensor relative to the reference."""

    what: str
    """`output`, `output[0].logits`, `gradient of blocks.0.weight`."""
    cosine: float | None
    """Cosine similarity of both as vectors; None if one of them is zero or not finite."""
    absolute: float | None
    """Largest absolute error; None if it is not a number."""
    relative: float | None
    """Largest relative error, over elements whose reference is not 0."""
    passed: bool


@dataclass(frozen=True)
class KernelReplay:
    """Kernels of a call, replayed on their own inputs: each buffer next to the operators that it stands for."""

    kernel: str = ""
    """The first that writes a wrong buffer; empty if none does."""
    buffer: str = ""
    steps: float = 0.0
    """Its largest error, in rounding steps of its dtype."""
    eager_steps: float = 0.0
    """That of its operators in eager mode."""
    judged: int = 0
    unmapped: int = 0
    """Buffers of which it is not known for what they stand."""
    not_evaluated: int = 0
    """Buffers that a later kernel writes again, or whose operators do not run in float64."""
    unjudged: dict[str, int] = field(default_factory=dict)
    """The buffers that were not judged by the reason, in words."""
    distribution: str = ""
    """How its random numbers are apart from those of its operators, if that is what is wrong."""


@dataclass(frozen=True)
class Accuracy:
    """A configuration's results compared with eager's, by the rules of torch's benchmark suite."""

    passed: bool | None
    """None: they were not compared, for the reason in `why`."""
    why: str = ""
    """What differs, why nothing was compared, and remarks on the verdict."""
    tolerance: float | None = None
    against: str = ""
    """The reference of the errors: `float64` or `eager`."""
    tensors: tuple[TensorError, ...] = ()
    """The tensors with the largest errors first, bounded."""
    compared: int = 0
    """How many tensors were compared."""
    first: Stack = ()
    """The first operator that differs, from a bisection, outermost frame first; empty without a bisection."""
    first_why: str = ""
    """Why this line is named, in words; empty if its operators return other values."""
    first_operator: str = ""
    """That operator, as `torch.relu`."""
    first_graph: str | None = None
    """Compile id of its graph."""
    first_kernel: str = ""
    """The kernel that computes it, if known."""
    replay: KernelReplay | None = None
    """None if no kernels were replayed."""


class LaunchKind(str, enum.Enum):
    """The kind of work in a profile."""

    KERNEL = "kernel"
    COPY = "copy"
    """A memory copy or set."""
    EAGER = "eager"
    """A kernel (or, on the CPU, an operator) that no compiled graph launched."""
    INPUTS = "inputs"
    """Prepares the inputs of a graph before it runs: copies to the buffers of its CUDA graph, zeros for missing
    gradients."""


@dataclass(frozen=True)
class MeasuredLaunch:
    """One launch of a compiled graph's kernel, or one kind of work outside of graphs: in-run, from the profiler.

    `graph` and `launch` are the key: `MeasuredConfiguration.generated[graph].kernels[launch]`. If both are None, the
    work could not be joined to a kernel of the Report. Work that prepares inputs has only a graph.
    """

    name: str
    """Name in the device's profile."""
    kind: LaunchKind
    us: float
    """Median over the profiled calls of all its work in one call, microseconds."""
    low_us: float
    high_us: float
    """Quartiles over the profiled calls."""
    count: float
    """Device kernels per call that it represents: more than 1 for a library call that launches several."""
    graph: int | None = None
    launch: int | None = None
    operator: str = ""
    """ATen operator that launched it, if the profiler reports it: `aten::addmm`."""
    stack: Stack = ()
    """Eager work: its source line, if known, outermost frame first."""
    isolated_us: float | None = None
    """Time of the same launch made alone, repeatedly, with the arguments of a real call, microseconds. None if not
    requested."""


class GapKind(str, enum.Enum):
    """The cause of time in which no kernel runs."""

    LAUNCH = "launch"
    """Between a kernel's launch on the host and its start, and between kernels that wait for nothing."""
    GUARDS = "guards"
    """Dynamo looks up the matching compiled code and checks its guards."""
    WRAPPER = "wrapper"
    """Host code of a compiled graph: allocations, launches, autograd's bookkeeping."""
    EAGER = "eager"
    """Host code of an operator outside of compiled graphs, at a graph break."""
    SYNC = "sync"
    """The host waits for the device."""
    COPY = "copy"
    """A copy between host and device while no kernel runs."""
    HOST = "host"
    """The user's Python, and all other host code."""


@dataclass(frozen=True)
class Gap:
    """Time of one call in which no kernel runs, by the host's activity, microseconds."""

    kind: GapKind
    us: float
    count: float = 0.0
    """Number of such stretches per call."""
    what: str = ""
    """The operator or runtime call, as `aten::item` or `cudaStreamSynchronize`."""
    stack: Stack = ()
    """The line that caused it, if known."""


@dataclass(frozen=True)
class Profile:
    """The division of one call's time, with the profiler active: slower than the timed calls."""

    source: str
    """`CUPTI`, or `record functions` on the CPU."""
    calls: int
    """Number of profiled calls."""
    wall_us: float
    """Duration of one call, from its start on the host until its last kernel has ended."""
    kernel_us: float
    """Part of `wall_us` in which at least one kernel runs: the union over streams."""
    device_us: float
    """Sum of all kernels; more than `kernel_us` if streams overlap."""
    joined_us: float
    """Part of `device_us` that is joined to a kernel of the Report or to an eager operator's line."""
    launches: tuple[MeasuredLaunch, ...] = ()
    gaps: tuple[Gap, ...] = ()
    """The gaps; together with `kernel_us` they add up to `wall_us`."""


@dataclass(frozen=True)
class CompileStep:
    """One phase of a cold compile; phases nest."""

    name: str
    """torch's name of the phase, such as `inductor_compile` or `Scheduler.fused_nodes`."""
    start_us: float
    """Since the first call began."""
    us: float
    depth: int
    """0 for an outermost phase."""
    compile_id: str | None = None
    location: Location | None = None
    """The user's line that is being compiled, if known."""
    sampled: bool = False
    """Whether it comes from stack samples, where torch reports no phase."""


@dataclass(frozen=True)
class MeasuredConfiguration:
    """The result of one configuration, measured in its own process."""

    name: str
    """Name as requested: `eager`, `default`, `max-autotune+dynamic` (docs/measuring.md)."""
    failure: Failure | None = None
    """Why some or all of the following fields are missing."""
    first_us: Microseconds | None = None
    """The first call: with a cold compile, every cache empty."""
    second_us: Microseconds | None = None
    """The second call: includes a recompilation, if there is one."""
    warm_up_calls: int = 0
    """Calls after the first two until the time was steady."""
    wall: Timing | None = None
    device: Timing | None = None
    """None on a CPU."""
    peak_bytes: int | None = None
    """Peak memory of one steady call, with parameters and inputs: device memory, or resident memory on a CPU."""
    own_bytes: int | None = None
    """Part of `peak_bytes` that was not present before the call."""
    memory: MeasuredMemory | None = None
    """What the allocator of tensors says of one steady call, without lines. On a CPU, whose allocator keeps no
    count, by the profiler: `peak_bytes` is resident memory there."""
    estimated_bytes: int | None = None
    """Bytes of tensors at the peak of the same call, estimated on fake tensors; None where that was not done."""
    accuracy: Accuracy | None = None
    """None for the reference itself, and if not requested."""
    profile: Profile | None = None
    generated: tuple[GeneratedGraph, ...] = ()
    """The graphs that its compile generated, to which `profile` refers."""
    compile_steps: tuple[CompileStep, ...] = ()
    graph_breaks: int | None = None
    compiles: int | None = None
    """Compiled frames, including recompilations."""
    recompiles: int | None = None
    cudagraphs: bool | None = None
    """Whether CUDA graphs were requested; None if nothing was compiled."""
    host_bound: bool = False
    """Whether a GPU's kernels run for less than half of a call, so that the host limits it."""
    alone: bool = False
    """Whether it was measured separately: there was not enough memory to run it alongside the others."""
    notes: tuple[str, ...] = ()
    """Remarks that a reader of its numbers needs."""


@dataclass(frozen=True)
class Machine:
    """The machine that was measured on, and its other load."""

    device: str
    """The driver's name of the GPU, or the processor's."""
    index: int | None = None
    """Index among the GPUs that torch sees; None for the CPU."""
    visible: str | None = None
    """Value of `CUDA_VISIBLE_DEVICES`."""
    uuid: str = ""
    """UUID of the GPU, or of the MIG slice."""
    mig: bool = False
    driver: str = ""
    cuda: str = ""
    threads: int = 0
    """torch's intra-operator threads."""
    clocks: str = ""
    """SM and memory clock before and after, as text."""
    notes: tuple[str, ...] = ()
    """Reasons to doubt the numbers: throttling, other processes on the device, a busy processor."""


@dataclass(frozen=True)
class Measured:
    """All configurations of one target that were measured together."""

    work: Work
    machine: Machine
    configurations: tuple[MeasuredConfiguration, ...] = ()
    rounds: int = 0
    """Number of interleaved rounds."""
    cold_cache: bool = False
    """Whether the device's L2 was cleared before each timed call."""
    fresh_inputs: bool = False
    """Whether each call got copies of the inputs, because the target changes them in place."""
    random: bool | None = None
    """Whether eager's results differ between calls; None if unknown."""
    seconds: float = 0.0
    """Duration of the whole benchmark."""
    counted_seconds: float = 0.0
    """Part of `seconds` in compiles, timed calls and warm-up; the rest is overhead."""
    finished: bool = False
    """False while the benchmark is running, or if it was ended early."""
    started: str = ""
    """Start time in UTC, as `2026-01-31T12:00:00Z`."""
    order: tuple[str, ...] = field(default_factory=tuple)
    """Names of all requested configurations, in order: some may have no row yet."""
