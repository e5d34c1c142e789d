"""What was measured of a target: each configuration of torch.compile beside eager, in time, memory and accuracy.

Invariant: a time here was measured, and its field says by which clock; an estimate is never in this module's types.
Times are of ONE call of the target unless a field says otherwise. What could not be measured is None with a reason
beside it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from fuselight.report.failure import Failure
from fuselight.report.kernels import GeneratedGraph
from fuselight.report.place import Location, Stack


class Work(str, enum.Enum):
    """What one call does."""

    INFERENCE = "inference"
    FORWARD_BACKWARD = "forward_backward"
    TRAINING_STEP = "training_step"
    """Forward, backward, and a step of an optimiser (SGD over the parameters)."""


class Clock(str, enum.Enum):
    """By what a time was taken."""

    WALL = "wall"
    """The host's clock around a call that is waited for."""
    DEVICE = "device"
    """Events on the device's stream before and behind a call."""


@dataclass(frozen=True)
class Timing:
    """One call in its steady state, microseconds."""

    clock: Clock
    median_us: float
    low_us: float
    """First quartile of `rounds_us`."""
    high_us: float
    """Third quartile."""
    calls: int
    """Calls that were timed, in all rounds together."""
    rounds_us: tuple[float, ...] = ()
    """The median of each round, in order: rounds of the configurations took turns."""
    unsteady: bool = False
    """Whether the spread is too wide for a difference of some percent to mean anything."""

    @property
    def spread(self) -> float:
        """Half of what lies between the quartiles, as a part of the median: 0.01 is +- 1 %."""
        return (self.high_us - self.low_us) / 2 / self.median_us if self.median_us else 0.0


@dataclass(frozen=True)
class TensorError:
    """How far one tensor is from the reference."""

    what: str
    """`output`, `output[0].logits`, `gradient of blocks.0.weight`."""
    cosine: float | None
    """Cosine similarity of both as vectors; None where one of them is zero or not finite."""
    absolute: float | None
    """Largest absolute error; None where it is not a number."""
    relative: float | None
    """Largest relative error, of elements whose reference is not 0."""
    passed: bool


@dataclass(frozen=True)
class Accuracy:
    """A configuration's results against eager's, judged as torch's own benchmark suite does."""

    passed: bool | None
    """None: they were not compared, and `why` says why."""
    why: str = ""
    """In words: what differs, why nothing was compared, and what a reader of the verdict has to know."""
    tolerance: float | None = None
    against: str = ""
    """What the errors are against: `float64` or `eager`."""
    tensors: tuple[TensorError, ...] = ()
    """The worst ones first, bounded."""
    compared: int = 0
    """How many tensors were compared."""
    first: Stack = ()
    """Where a bisection found the first operator that differs, outermost frame first; empty where none was made."""
    first_operator: str = ""
    """That operator, as `torch.relu`."""
    first_graph: str | None = None
    """Compile id of its graph."""
    first_kernel: str = ""
    """The kernel that computes it, where that is known."""


class LaunchKind(str, enum.Enum):
    """What a stretch of work in a profile is."""

    KERNEL = "kernel"
    COPY = "copy"
    """A memory copy or set."""
    EAGER = "eager"
    """A kernel (or, on the CPU, an operator) that no compiled graph launched."""
    INPUTS = "inputs"
    """Makes the inputs of a graph, before it runs: copies to where its CUDA graph reads them, zeros for gradients that
    nobody gave."""


@dataclass(frozen=True)
class MeasuredLaunch:
    """One launch of a compiled graph's kernel, or one kind of work outside of them: in-run, from the profiler.

    `graph` and `launch` are the key: `MeasuredConfiguration.generated[graph].kernels[launch]`. None for both: it could
    not be joined to a kernel of the Report, and stands here all the same. What makes inputs has a graph alone.
    """

    name: str
    """As the device's profiler names it."""
    kind: LaunchKind
    us: float
    """Median over the profiled calls of all its work in one call, microseconds."""
    low_us: float
    high_us: float
    """Quartiles over the profiled calls."""
    count: float
    """How many device kernels it stands for in one call: more than 1 for a library call that launches several."""
    graph: int | None = None
    launch: int | None = None
    operator: str = ""
    """ATen operator that launched it, where the profiler knows: `aten::addmm`."""
    stack: Stack = ()
    """Eager work: the line that it belongs to, where that is known, outermost frame first."""
    isolated_us: float | None = None
    """The same launch made alone, over and over, with the arguments of a real call, microseconds.
    None where that was not asked for."""


class GapKind(str, enum.Enum):
    """What the time in no kernel goes into."""

    LAUNCH = "launch"
    """Between a kernel's launch on the host and its start, and between kernels that wait for no one."""
    GUARDS = "guards"
    """Dynamo looks for the compiled code that fits, and checks its guards."""
    WRAPPER = "wrapper"
    """Host code of a compiled graph: allocations, launches, autograd's bookkeeping."""
    EAGER = "eager"
    """Host code of an operator that no graph holds, at a graph break."""
    SYNC = "sync"
    """The host waits for the device."""
    COPY = "copy"
    """A copy between host and device, with no kernel meanwhile."""
    HOST = "host"
    """The user's Python, and everything else on the host."""


@dataclass(frozen=True)
class Gap:
    """Time of one call in which no kernel runs, by what the host does meanwhile, microseconds."""

    kind: GapKind
    us: float
    count: float = 0.0
    """How many stretches in one call."""
    what: str = ""
    """The operator or runtime call, as `aten::item` or `cudaStreamSynchronize`."""
    stack: Stack = ()
    """The line that caused it, where that is known."""


@dataclass(frozen=True)
class Profile:
    """Where one call's time goes, all of it with the profiler on: it is slower than the timed calls."""

    source: str
    """`CUPTI`, or `record functions` on the CPU."""
    calls: int
    """Calls that were profiled."""
    wall_us: float
    """One call, from its start on the host until its last kernel has ended."""
    kernel_us: float
    """Of that, at least one kernel runs: the union over streams."""
    device_us: float
    """Sum of all kernels; more than `kernel_us` where streams overlap."""
    joined_us: float
    """Of `device_us`, what is joined to a kernel of the Report or to an eager operator's line."""
    launches: tuple[MeasuredLaunch, ...] = ()
    gaps: tuple[Gap, ...] = ()
    """Together with `kernel_us` they are `wall_us`."""


@dataclass(frozen=True)
class CompileStep:
    """One phase of a cold compile; they nest."""

    name: str
    """torch's name of it, as `inductor_compile` or `Scheduler.fused_nodes`."""
    start_us: float
    """Since the first call began."""
    us: float
    depth: int
    """0 for an outermost one."""
    compile_id: str | None = None
    location: Location | None = None
    """The user's line that is compiled, where that is known."""
    sampled: bool = False
    """Whether it was seen from outside, by samples, where torch itself tells of nothing."""


@dataclass(frozen=True)
class MeasuredConfiguration:
    """One configuration: it was measured in a process of its own."""

    name: str
    """As asked for: `eager`, `default`, `max-autotune+dynamic` (docs/measuring.md)."""
    failure: Failure | None = None
    """Why there is less than all of the following, or nothing."""
    first_us: float | None = None
    """The first call: with a cold compile, every cache empty."""
    second_us: float | None = None
    """The second call: a recompilation shows here."""
    warm_up_calls: int = 0
    """Calls after these two until the time was steady."""
    wall: Timing | None = None
    device: Timing | None = None
    """None on a CPU."""
    peak_bytes: int | None = None
    """Most memory that one steady call needs at once, with parameters and inputs: the device's, on a CPU resident."""
    own_bytes: int | None = None
    """Of that, what was not there before the call."""
    accuracy: Accuracy | None = None
    """None for the reference itself, and where it was not asked for."""
    profile: Profile | None = None
    generated: tuple[GeneratedGraph, ...] = ()
    """What its compile generated: the graphs that `profile` speaks of."""
    compile_steps: tuple[CompileStep, ...] = ()
    graph_breaks: int | None = None
    compiles: int | None = None
    """Frames that were compiled, recompilations included."""
    recompiles: int | None = None
    cudagraphs: bool | None = None
    """Whether CUDA graphs were asked for; None where nothing was compiled."""
    alone: bool = False
    """Whether it was measured behind the others, since there was no memory for it beside them."""
    notes: tuple[str, ...] = ()
    """In words, what a reader of its numbers has to know."""


@dataclass(frozen=True)
class Machine:
    """Where it was measured, and what else went on there."""

    device: str
    """The driver's name of the GPU, or the processor's."""
    index: int | None = None
    """Which of the GPUs that torch sees; None for the CPU."""
    visible: str | None = None
    """`CUDA_VISIBLE_DEVICES` as it was set."""
    uuid: str = ""
    """Of the GPU, or of the MIG slice."""
    mig: bool = False
    driver: str = ""
    cuda: str = ""
    threads: int = 0
    """torch's threads within an operator."""
    clocks: str = ""
    """In words: SM and memory clock before and behind."""
    notes: tuple[str, ...] = ()
    """In words, what makes the numbers doubtful: throttling, other processes on the device, a loaded processor."""


@dataclass(frozen=True)
class Measured:
    """All configurations of one target that were measured together."""

    work: Work
    machine: Machine
    configurations: tuple[MeasuredConfiguration, ...] = ()
    rounds: int = 0
    """How often the configurations took turns."""
    cold_cache: bool = False
    """Whether the device's L2 was cleared before each timed call."""
    fresh_inputs: bool = False
    """Whether each call got copies of the inputs, as the target changes them in place."""
    random: bool | None = None
    """Whether eager gives other results each time; None: that is not known."""
    seconds: float = 0.0
    """The whole benchmark."""
    counted_seconds: float = 0.0
    """Of that, compiles, timed calls and warm-up: the rest is its own."""
    finished: bool = False
    """False for what is known while it goes on, or where it was ended early."""
    started: str = ""
    """When, in UTC, as `2026-01-31T12:00:00Z`."""
    order: tuple[str, ...] = field(default_factory=tuple)
    """Names of all configurations that were asked for, in order: some may have no row yet."""
