"""The search for the fastest configuration of a target: what each knob could gain, what was tried, and the winner.

Invariant: every time was measured in this search, and every candidate that was considered has an entry that says what
became of it. Times are of ONE call of the target. `TunedResult` is what `fuselight-tuned.json` stores and a program
replays (`tuned_file`); the rest is for the reader.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

from fuselight.shared.report.measured import Machine, MeasuredConfiguration, Work


class Numerics(str, enum.Enum):
    """Which changes of the arithmetic the search may make."""

    EXACT = "exact"
    """None: only what torch.compile itself does."""
    TF32 = "tf32"
    """TF32 for the matrix multiplications and convolutions of float32 tensors."""
    REDUCED = "reduced"
    """TF32, and autocast to bfloat16."""


@dataclass(frozen=True)
class Preparation:
    """What our backend changes of a captured graph, or in force, before Inductor compiles it."""

    channels_last: bool = False
    """Whether the weights of 2-D convolutions and the images are stored channels last."""
    attention: str = ""
    """The implementation that scaled_dot_product_attention must use: a value of `ATTENTION`; empty: torch chooses."""
    precision: str = ""
    """A value of `PRECISION`; empty: as the program says."""


ATTENTION = ("flash", "efficient", "cudnn", "math")
PRECISION = ("tf32", "bf16")


class KnobBound(str, enum.Enum):
    """The part of a call that a knob can at most remove."""

    IDLE = "idle"
    """The device waits for the host between kernels: launches, guards, the wrapper."""
    MATMUL = "matmul"
    """Matrix multiplications."""
    CONVOLUTION = "convolution"
    DENSE = "dense"
    """Matrix multiplications and convolutions."""
    GENERATED = "generated"
    """Generated pointwise and reduction kernels."""
    ATTENTION = "attention"
    LAYOUT = "layout"
    """Copies and layout changes, and convolutions."""
    KERNELS = "kernels"
    """Every kernel."""
    BREAKS = "breaks"
    """Eager work and idle time at graph breaks, and recompilations."""
    OPTIMIZER = "optimizer"
    """The optimizer's step."""
    CALL = "call"
    """The whole call: no tighter bound is known."""


class Skip(str, enum.Enum):
    """Why a knob or a candidate was not tried."""

    NOISE = "noise"
    """It cannot gain more than the spread of the timings."""
    NUMERICS = "numerics"
    """`--numerics` does not allow it."""
    ASSUMPTION = "assumption"
    """It assumes something of the program that the user has not confirmed, as `--fixed-modules` does."""
    WORK = "work"
    """It does not apply to this work: freezing while training."""
    DEVICE = "device"
    """It does not apply to this device."""
    ABSENT = "absent"
    """The target has nothing that it changes, or this torch lacks the option."""
    EXCLUDED = "excluded"
    """It cannot be combined with a knob of the fastest configuration."""
    BUDGET = "budget"
    """No time was left for its compile."""


@dataclass(frozen=True)
class Knob:
    """One setting that the search may change."""

    name: str
    """`cuda_graphs`, `channels_last`, `freezing`, ... (docs/tuning.md)."""
    bound: KnobBound
    bound_us: float | None = None
    """The part of a call of `default` that it can at most remove, microseconds, from the profile; None: unknown."""
    ceiling: float | None = None
    """The speed-up over `default` if it removed all of that part: 1.25 is a quarter faster."""
    skipped: Skip | None = None
    """None: it was tried."""
    detail: str = ""
    """What the bound consists of, or why it was skipped: `12 kernels`, `torch 2.11 has no such
    option`."""


class TuneOutcome(str, enum.Enum):
    """What became of a candidate."""

    WINNER = "winner"
    BASELINE = "baseline"
    """Eager and `default`, which every search measures, and torch's other modes if requested."""
    SLOWER = "slower"
    """It stayed in the race to the end and was not the fastest."""
    ELIMINATED = "eliminated"
    """It left its last race early: another one was faster in the same rounds."""
    UNCONFIRMED = "unconfirmed"
    """It led the race, and the confirming race did not show it to be faster than `default`."""
    INACCURATE = "inaccurate"
    FAILED = "failed"
    """`configuration.failure` says why: an error, a time limit, memory."""
    SKIPPED = "skipped"
    UNFINISHED = "unfinished"
    """The budget ended, or the search was cancelled, before it was measured."""


@dataclass(frozen=True)
class TuneCandidate:
    """One configuration that the search considered."""

    configuration: MeasuredConfiguration
    """`name` is its notation (docs/measuring.md); times, accuracy and failure as in a benchmark."""
    outcome: TuneOutcome
    knobs: tuple[str, ...] = ()
    """Names of the knobs that it changes from `default`."""
    skipped: Skip | None = None
    stage: int = 0
    """The last stage of the race that it took part in, from 1; 0: none."""
    started_s: float | None = None
    """Seconds since the search began when its process started."""
    ready_s: float | None = None
    """Seconds since the search began when it had compiled and could be timed."""


@dataclass(frozen=True)
class RaceSample:
    """One round of timed calls of one candidate."""

    at_s: float
    """Seconds since the search began."""
    stage: int
    """Stage of the race, from 1. After the confirming race come eager and `default` again, then torch's modes."""
    name: str
    us: float
    """Median of the round, by the device's clock on a GPU and else by the host's."""


@dataclass(frozen=True)
class Confirmation:
    """The race of the winner against `default` that decides."""

    us: float
    """Median of the winner, microseconds."""
    default_us: float
    gain: float
    """Default's time divided by the winner's time in the same round, median over the rounds: 1.2 is 20% more calls."""
    low: float
    """Lower bound of `gain` (95%)."""
    high: float
    rounds: int


@dataclass(frozen=True)
class TunedGraph:
    """A captured graph for which a result holds."""

    key: str
    """Hash of its operators, arguments and inputs (dtypes, shapes, strides), the same in every process."""
    inputs: tuple[str, ...] = ()
    """Its tensor inputs without parameters, for the reader: `f32[8, 3, 224, 224]`."""
    operators: int = 0


@dataclass(frozen=True)
class TunedResult:
    """A decision, and for what it holds."""

    file: str
    """The file of the target, relative to the folder of the tuned file."""
    target: str
    work: Work
    numerics: Numerics
    device: str
    """The driver's name of the GPU, or the processor's."""
    capability: str = ""
    """Compute capability of the GPU: `9.0`."""
    torch: str = ""
    triton: str = ""
    graphs: tuple[TunedGraph, ...] = ()
    configuration: str = "default"
    """Notation of the winner."""
    options: dict[str, Any] = field(default_factory=dict)
    """Inductor's options of the winner, those of its mode included: plain arguments for torch.compile."""
    preparation: Preparation = Preparation()
    dynamic: bool | None = None
    """The `dynamic` argument of torch.compile."""
    blocks: tuple[str, ...] = ()
    """Submodules that are compiled one by one instead of the whole, as `layers.0`."""
    optimizer: bool = False
    """Whether the optimizer's step is compiled too."""
    fixed_modules: bool = False
    """Whether the guards on modules are skipped: torch.compile's `guard_filter_fn`. Wrong results if modules change."""
    fixes: tuple[str, ...] = ()
    """Titles of verified fixes that the source must have."""
    kernels: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Choices of kernel tuning, by family and key, as our backend hands them to Inductor (`runtime`)."""
    artifacts: str = ""
    """Name of the file with saved cache artifacts, beside the tuned file; empty: none."""
    us: float = 0.0
    """Measured time of a call, microseconds."""
    default_us: float = 0.0
    eager_us: float | None = None
    """Comparable with `default_us` if eager was timed again after the decision, else of all its rounds."""
    gain: float = 1.0
    gain_low: float = 1.0
    """Lower bound of `gain` (95%)."""
    accuracy: str = ""
    """What the results were compared with, and the outcome: `passed against float64`."""
    when: str = ""
    """UTC, as `2026-01-31T12:00:00Z`."""
    fuselight: str = ""
    """Version of Fuselight that measured it."""


@dataclass(frozen=True)
class Tuned:
    """One search."""

    work: Work
    machine: Machine
    numerics: Numerics
    budget_seconds: float
    knobs: tuple[Knob, ...] = ()
    """In the order of their ceilings, largest first."""
    candidates: tuple[TuneCandidate, ...] = ()
    """In the order in which they were tried: eager, `default`, the others; then those that were not tried."""
    race: tuple[RaceSample, ...] = ()
    winner: str = "default"
    """Name of the fastest verified configuration; `default` if nothing was shown to be faster."""
    confirmation: Confirmation | None = None
    """None if nothing raced against `default`."""
    result: TunedResult | None = None
    """What to replay; None if the search did not come to a decision."""
    notes: tuple[str, ...] = ()
    """Remarks that a reader needs: the budget was too short, other processes on the device, no GPU."""
    seconds: float = 0.0
    """Duration of the search, without `modes_seconds` and without the compile that saves artifacts."""
    modes_seconds: float = 0.0
    """Duration of measuring torch's other modes, if requested."""
    finished: bool = False
    """False while the search is running, or if it was ended early."""
    started: str = ""
    """UTC, as `2026-01-31T12:00:00Z`."""
