"""The Report: everything that one run recorded, as plain, immutable, JSON-serializable data.

It is the only data that crosses from compiler to server. Invariant: unknown facts are `None` or an entry in `problems`,
never a guess. Lines are 1-based; columns are 0-based offsets in the UTF-8 bytes of the line, as CPython's
`co_positions` gives them, and None where the Python or the source has none (before 3.11). Large text is stored once in
`Report.texts`, under its SHA-256; fields named `*_text` hold such a key.
"""

from __future__ import annotations

import enum
import hashlib
from dataclasses import dataclass, field

from fuselight.shared.report.capture import Break as Break
from fuselight.shared.report.capture import Compile as Compile
from fuselight.shared.report.capture import Frame as Frame
from fuselight.shared.report.capture import Graph as Graph
from fuselight.shared.report.capture import Guard as Guard
from fuselight.shared.report.capture import GuardCause as GuardCause
from fuselight.shared.report.capture import GuardFailure as GuardFailure
from fuselight.shared.report.capture import GuardPlace as GuardPlace
from fuselight.shared.report.capture import Mismatch as Mismatch
from fuselight.shared.report.capture import Mode as Mode
from fuselight.shared.report.capture import NotCompiled as NotCompiled
from fuselight.shared.report.capture import NotCompiledKind as NotCompiledKind
from fuselight.shared.report.capture import Outcome as Outcome
from fuselight.shared.report.capture import Recompile as Recompile
from fuselight.shared.report.capture import SizeChange as SizeChange
from fuselight.shared.report.capture import StaticSizes as StaticSizes
from fuselight.shared.report.capture import Symbol as Symbol
from fuselight.shared.report.capture import UnseenChange as UnseenChange
from fuselight.shared.report.capture import UnseenKind as UnseenKind
from fuselight.shared.report.capture import add_break as add_break
from fuselight.shared.report.cures import REPLACED as REPLACED
from fuselight.shared.report.cures import CallCure as CallCure
from fuselight.shared.report.cures import CureGoal as CureGoal
from fuselight.shared.report.cures import CureKind as CureKind
from fuselight.shared.report.cures import CureRun as CureRun
from fuselight.shared.report.cures import CureTrial as CureTrial
from fuselight.shared.report.cures import NextBreak as NextBreak
from fuselight.shared.report.cures import TrialCounts as TrialCounts
from fuselight.shared.report.device import Device as Device
from fuselight.shared.report.facts import Branch as Branch
from fuselight.shared.report.facts import Fact as Fact
from fuselight.shared.report.facts import FactKind as FactKind
from fuselight.shared.report.facts import FileFacts as FileFacts
from fuselight.shared.report.facts import TracedFacts as TracedFacts
from fuselight.shared.report.facts import TracedValue as TracedValue
from fuselight.shared.report.failure import Culprit as Culprit
from fuselight.shared.report.failure import EagerHandler as EagerHandler
from fuselight.shared.report.failure import Failure as Failure
from fuselight.shared.report.failure import TensorHolder as TensorHolder
from fuselight.shared.report.forecast import CallChange as CallChange
from fuselight.shared.report.forecast import ChangeKind as ChangeKind
from fuselight.shared.report.forecast import Forecast as Forecast
from fuselight.shared.report.forecast import FrameForecast as FrameForecast
from fuselight.shared.report.forecast import TriedValue as TriedValue
from fuselight.shared.report.imports import ImportLine as ImportLine
from fuselight.shared.report.imports import Imports as Imports
from fuselight.shared.report.kernels import CudagraphSkip as CudagraphSkip
from fuselight.shared.report.kernels import FusedOperator as FusedOperator
from fuselight.shared.report.kernels import GeneratedGraph as GeneratedGraph
from fuselight.shared.report.kernels import Handed as Handed
from fuselight.shared.report.kernels import Kernel as Kernel
from fuselight.shared.report.kernels import KernelKind as KernelKind
from fuselight.shared.report.kernels import OperatorPath as OperatorPath
from fuselight.shared.report.kernels import Phase as Phase
from fuselight.shared.report.kernels import Recomputed as Recomputed
from fuselight.shared.report.kernels import Refusal as Refusal
from fuselight.shared.report.kernels import Repeated as Repeated
from fuselight.shared.report.kernels import SavedTensor as SavedTensor
from fuselight.shared.report.kernels import is_library_call as is_library_call
from fuselight.shared.report.launches import AddressCheckResult as AddressCheckResult
from fuselight.shared.report.launches import KernelFault as KernelFault
from fuselight.shared.report.launches import KernelMismatch as KernelMismatch
from fuselight.shared.report.launches import OpenAccess as OpenAccess
from fuselight.shared.report.launches import TuningChange as TuningChange
from fuselight.shared.report.launches import VariedCalls as VariedCalls
from fuselight.shared.report.measured import Accuracy as Accuracy
from fuselight.shared.report.measured import Clock as Clock
from fuselight.shared.report.measured import CompileStep as CompileStep
from fuselight.shared.report.measured import Gap as Gap
from fuselight.shared.report.measured import GapKind as GapKind
from fuselight.shared.report.measured import KernelReplay as KernelReplay
from fuselight.shared.report.measured import LaunchKind as LaunchKind
from fuselight.shared.report.measured import Machine as Machine
from fuselight.shared.report.measured import Measured as Measured
from fuselight.shared.report.measured import MeasuredConfiguration as MeasuredConfiguration
from fuselight.shared.report.measured import MeasuredLaunch as MeasuredLaunch
from fuselight.shared.report.measured import Profile as Profile
from fuselight.shared.report.measured import TensorError as TensorError
from fuselight.shared.report.measured import Timing as Timing
from fuselight.shared.report.measured import Work as Work
from fuselight.shared.report.memory import OF_GRAPH as OF_GRAPH
from fuselight.shared.report.memory import ChangedMemory as ChangedMemory
from fuselight.shared.report.memory import EditKind as EditKind
from fuselight.shared.report.memory import EditResults as EditResults
from fuselight.shared.report.memory import HeldMemory as HeldMemory
from fuselight.shared.report.memory import HolderGrowth as HolderGrowth
from fuselight.shared.report.memory import MeasuredMemory as MeasuredMemory
from fuselight.shared.report.memory import MemoryChange as MemoryChange
from fuselight.shared.report.memory import MemoryCurve as MemoryCurve
from fuselight.shared.report.memory import MemoryEstimate as MemoryEstimate
from fuselight.shared.report.memory import MemoryPeak as MemoryPeak
from fuselight.shared.report.memory import MemorySaving as MemorySaving
from fuselight.shared.report.memory import MemoryTimeline as MemoryTimeline
from fuselight.shared.report.memory import MemoryUse as MemoryUse
from fuselight.shared.report.memory import ModuleMemory as ModuleMemory
from fuselight.shared.report.memory import SavingKind as SavingKind
from fuselight.shared.report.memory import StepPhase as StepPhase
from fuselight.shared.report.memory import TriedEdit as TriedEdit
from fuselight.shared.report.own_kernels import CompiledOption as CompiledOption
from fuselight.shared.report.own_kernels import KernelConfiguration as KernelConfiguration
from fuselight.shared.report.own_kernels import OwnKernel as OwnKernel
from fuselight.shared.report.own_kernels import TunedSizes as TunedSizes
from fuselight.shared.report.place import LineNumber as LineNumber
from fuselight.shared.report.place import Location as Location
from fuselight.shared.report.place import Stack as Stack
from fuselight.shared.report.place import file_name as file_name
from fuselight.shared.report.place import innermost_user_frame as innermost_user_frame
from fuselight.shared.report.place import is_installed as is_installed
from fuselight.shared.report.place import is_pythons_own as is_pythons_own
from fuselight.shared.report.place import is_user_file as is_user_file
from fuselight.shared.report.reads import Reads as Reads
from fuselight.shared.report.release_outputs import CallErrors as CallErrors
from fuselight.shared.report.release_outputs import Deprecation as Deprecation
from fuselight.shared.report.release_outputs import ReleaseCall as ReleaseCall
from fuselight.shared.report.release_outputs import ReleaseOutputs as ReleaseOutputs
from fuselight.shared.report.reproduction import MARK as MARK
from fuselight.shared.report.reproduction import TIMEOUT as TIMEOUT
from fuselight.shared.report.reproduction import UNLESS_EAGER as UNLESS_EAGER
from fuselight.shared.report.reproduction import CodeSearch as CodeSearch
from fuselight.shared.report.reproduction import RecordedCode as RecordedCode
from fuselight.shared.report.reproduction import RecordedGraph as RecordedGraph
from fuselight.shared.report.reproduction import RecordedNode as RecordedNode
from fuselight.shared.report.reproduction import Reproduction as Reproduction
from fuselight.shared.report.reproduction import ScriptOutcome as ScriptOutcome
from fuselight.shared.report.reproduction import ScriptState as ScriptState
from fuselight.shared.report.reproduction import TensorTraits as TensorTraits
from fuselight.shared.report.resources import Assembled as Assembled
from fuselight.shared.report.resources import LaunchConfig as LaunchConfig
from fuselight.shared.report.resources import Listing as Listing
from fuselight.shared.report.resources import Occupancy as Occupancy
from fuselight.shared.report.results import RAISES_NOTHING as RAISES_NOTHING
from fuselight.shared.report.results import STAGE_BACKENDS as STAGE_BACKENDS
from fuselight.shared.report.results import ComparedCall as ComparedCall
from fuselight.shared.report.results import NextToEager as NextToEager
from fuselight.shared.report.results import NonFinite as NonFinite
from fuselight.shared.report.results import NonFiniteKind as NonFiniteKind
from fuselight.shared.report.results import NonFiniteOrigin as NonFiniteOrigin
from fuselight.shared.report.results import OperatorFault as OperatorFault
from fuselight.shared.report.results import RandomDraws as RandomDraws
from fuselight.shared.report.results import RegionEdit as RegionEdit
from fuselight.shared.report.results import ResultCause as ResultCause
from fuselight.shared.report.results import ResultComparison as ResultComparison
from fuselight.shared.report.results import Stage as Stage
from fuselight.shared.report.results import TriedSetting as TriedSetting
from fuselight.shared.report.shadow import CallValues as CallValues
from fuselight.shared.report.shadow import FirstNonFinite as FirstNonFinite
from fuselight.shared.report.shadow import LineSums as LineSums
from fuselight.shared.report.shadow import RecordedValue as RecordedValue
from fuselight.shared.report.shadow import Shadow as Shadow
from fuselight.shared.report.shadow import ShadowedCall as ShadowedCall
from fuselight.shared.report.tuned import Confirmation as Confirmation
from fuselight.shared.report.tuned import Knob as Knob
from fuselight.shared.report.tuned import KnobBound as KnobBound
from fuselight.shared.report.tuned import Numerics as Numerics
from fuselight.shared.report.tuned import Preparation as Preparation
from fuselight.shared.report.tuned import RaceSample as RaceSample
from fuselight.shared.report.tuned import Skip as Skip
from fuselight.shared.report.tuned import TuneCandidate as TuneCandidate
from fuselight.shared.report.tuned import Tuned as Tuned
from fuselight.shared.report.tuned import TunedGraph as TunedGraph
from fuselight.shared.report.tuned import TunedResult as TunedResult
from fuselight.shared.report.tuned import TuneOutcome as TuneOutcome
from fuselight.shared.report.verification import Aspect as Aspect
from fuselight.shared.report.verification import CallComparison as CallComparison
from fuselight.shared.report.verification import CaseFamily as CaseFamily
from fuselight.shared.report.verification import Difference as Difference
from fuselight.shared.report.verification import LinesRun as LinesRun
from fuselight.shared.report.verification import Verification as Verification
from fuselight.shared.report.world import BlockedRank as BlockedRank
from fuselight.shared.report.world import Collective as Collective
from fuselight.shared.report.world import CollectiveMismatch as CollectiveMismatch
from fuselight.shared.report.world import EqualRanks as EqualRanks
from fuselight.shared.report.world import MeshDimension as MeshDimension
from fuselight.shared.report.world import World as World
from fuselight.shared.report.world import WorldPlan as WorldPlan

SCHEMA = 1
"""Version of this schema. Readers accept reports whose number is not larger than theirs."""

VARIABLES = ("TORCH_", "TORCHINDUCTOR_", "TORCHDYNAMO_", "TRITON_", "PYTORCH_", "CUDA_VISIBLE_DEVICES")
"""Prefixes of the variables that torch and its compilers read."""


def text_key(text: str) -> str:
    """The key of `text` in `Report.texts`: the first 32 hex digits of its SHA-256."""
    return data_key(text.encode("utf-8", "surrogateescape"))


def data_key(data: bytes) -> str:
    """The first 32 hex digits of the SHA-256 of a file's bytes."""
    return hashlib.sha256(data).hexdigest()[:32]


class Tier(str, enum.Enum):
    """How far the compiler was run to obtain a fact (docs/internals.md, Tiers)."""

    STATIC = "static"
    PREDICTED = "predicted"
    CAPTURE = "capture"
    KERNELS = "kernels"
    MEASURED = "measured"
    TUNED = "tuned"
    ACCURACY = "accuracy"
    MEMORY = "memory"


@dataclass(frozen=True)
class Versions:
    """Versions in use. `None` where a package is absent."""

    python: str
    torch: str | None
    triton: str | None
    fuselight: str
    platform: str
    executable: str


@dataclass(frozen=True)
class Environment:
    """Variables and settings that could change the result."""

    variables: dict[str, str] = field(default_factory=dict)
    """TORCH_*, TORCHINDUCTOR_*, TORCHDYNAMO_*, TRITON_*, CUDA_VISIBLE_DEVICES, PYTORCH_* in the worker's
    environment."""
    config: dict[str, str] = field(default_factory=dict)
    """Settings of `torch._dynamo.config`, and of `torch.compiler.config` as `compiler.NAME`, that differed from torch's
    default when the run ended: name to repr."""


class Rung(str, enum.Enum):
    """The rung of the ladder of inputs that supplied the calls (docs/inputs.md)."""

    DIRECTIVE = "directive"
    PROVIDER = "provider"
    DUMMY_INPUTS = "dummy_inputs"
    ANNOTATIONS = "annotations"
    RECORDED = "recorded"
    MAIN = "main"
    SCRIPT = "script"
    """The file's own statements made the calls, outside of any function or `__main__` block."""
    PROGRAM = "program"
    """The program made the calls itself: `fuselight run`."""
    KERNEL = "kernel"
    """The cells of a notebook made the calls themselves, in the user's kernel: `%%fuselight`."""
    TRACE = "trace"
    """A job made the calls, on any machine: the facts are those of its logs (`TORCH_TRACE`)."""
    CALLER = "caller"
    """Another file of the workspace, `Inputs.path`, which was run up to its first call of the target."""


@dataclass(frozen=True)
class Call:
    """One call of the target."""

    index: int
    """0 for the first call of this run."""
    text: str
    """The inputs in directive notation, as `Net(dim=64)(f32[4, 128, 64])`; shapes and literals only, never data."""
    location: Location | None = None
    """Source of the call: the directive's line, or the caller in the user's file."""
    seconds: float | None = None


@dataclass(frozen=True)
class Inputs:
    """Source of the inputs. `fake` is True if the model was built and captured on fake tensors."""

    rung: Rung
    path: str
    line: LineNumber | None = None
    """1-based line of the first directive, provider, or `__main__` block."""
    calls: tuple[Call, ...] = ()
    grad: bool | None = None
    """Whether grad mode was on in the (first) call."""
    training: bool | None = None
    """`module.training`, None for a function."""
    fake: bool = False


@dataclass(frozen=True)
class TargetRef:
    """What was compiled: `name` is the qualified name in the file, as `Net` or `Outer.step`."""

    path: str
    name: str
    line: LineNumber
    kind: str


@dataclass(frozen=True)
class Note:
    """An action of the run that the user should know: a redirected device, fake tensors, ..."""

    kind: str
    """`device_redirected`, `fake_tensors`, `rung`, `output_truncated`, ..."""
    text: str
    location: Location | None = None


@dataclass(frozen=True)
class Problem:
    """A fact that could not be determined."""

    stage: str
    """`dynamo`, `guards`, `trace`, ..."""
    what: str
    why: str


@dataclass(frozen=True)
class Output:
    """Output of the user's code: the bounded tail of each stream, and the total number of bytes."""

    stdout: str = ""
    stderr: str = ""
    stdout_bytes: int = 0
    stderr_bytes: int = 0


@dataclass(frozen=True)
class Recorded:
    """The inputs of one call that a program made (`fuselight run`), recorded at a compile or recompile."""

    path: str
    target: str
    """Qualified name in the file of the compiled target; the `recorded` rung looks it up by this name."""
    line: LineNumber
    """1-based `def` line."""
    text: str
    """The call in directive notation."""
    compiled_at: Location | None = None
    """The line on which the program gives it to torch.compile; None for what is compiled as a part of something."""


@dataclass(frozen=True)
class Report:
    """Everything that one run recorded about one target."""

    versions: Versions
    target: TargetRef
    tier: Tier
    generation: int
    schema: int = SCHEMA
    inputs: Inputs | None = None
    device: str = "cpu"
    environment: Environment = Environment()
    frames: tuple[Frame, ...] = ()
    compiles: tuple[Compile, ...] = ()
    breaks: tuple[Break, ...] = ()
    recompiles: tuple[Recompile, ...] = ()
    not_compiled: tuple[NotCompiled, ...] = ()
    unseen: tuple[UnseenChange, ...] = ()
    """Changes of the program that its compiled code does not follow, and those that it does not make."""
    failures: tuple[Failure, ...] = ()
    notes: tuple[Note, ...] = ()
    problems: tuple[Problem, ...] = ()
    output: Output = Output()
    phases: dict[str, float] = field(default_factory=dict)
    """Seconds by phase: `import`, `build`, `trace`, ..."""
    roots: tuple[str, ...] = ()
    """Folders whose files are the user's (the workspace); everything else is a library."""
    files: dict[str, str] = field(default_factory=dict)
    """The workspace files that ran: path to `data_key` of the text that ran."""
    texts: dict[str, str] = field(default_factory=dict)
    facts: TracedFacts = field(default_factory=TracedFacts)
    """Tier capture: what each expression of the user's files was while Dynamo traced it."""
    forecasts: tuple[FrameForecast, ...] = ()
    """Tier capture: what would compile each function again."""
    fullgraph: bool | None = None
    """Whether the calls of torch.compile asked for `fullgraph=True`; None where they differ, or none was made."""
    static_compiles: tuple[Location, ...] = ()
    """The lines that call torch.compile with `dynamic=False`."""
    recorded: tuple[Recorded, ...] = ()
    """`fuselight run` only: inputs for later runs."""
    imports: Imports | None = None
    """`fuselight run` only: what the program imported before its first compile."""
    target_device: Device | None = None
    """Tier kernels: the device that the kernels were generated for."""
    generated: tuple[GeneratedGraph, ...] = ()
    """Tier kernels: forward graphs and their backward graphs, in the order in which they were compiled."""
    operators: tuple[OperatorPath, ...] = ()
    """Decomposition of each call, if requested: by graph and phase, in the order of execution."""
    assembled: dict[str, Assembled] = field(default_factory=dict)
    """Results of compiling Triton kernels for `target_device`, by the `text_key` of their source."""
    measured: Measured | None = None
    """Tier measured: the benchmark of each configuration."""
    tuned: Tuned | None = None
    """Tier tuned: the search for the fastest configuration."""
    verification: Verification | None = None
    """The comparison with the text before a change, if requested."""
    outputs: ReleaseOutputs | None = None
    """The results compared with those of an earlier release of torch, if requested."""
    reads: Reads | None = None
    """What the run read besides `files`, if requested."""
    world: World | None = None
    """The program as several ranks, if requested; all else in the report is of the first rank."""
    collectives: tuple[Collective, ...] = ()
    """Of a run as one rank: the collectives that it called, up to a bound; `world` has those of all ranks."""
    collective_count: int = 0
    """Of a run as one rank: how many it called in all."""
    trial: TrialCounts | None = None
    """What the run counted as a trial, if it was one."""
    kernel_faults: tuple[KernelFault, ...] = ()
    """What is wrong with accesses of the program's own Triton kernels, where launches are computed on the CPU."""
    own_kernels: tuple[OwnKernel, ...] = ()
    """The user's own Triton kernels that the run launched, by file and line, each specialization by itself."""
    own_kernels_device: Device | None = None
    """The device that they were compiled for."""
    kernel_mismatches: tuple[KernelMismatch, ...] = ()
    """Results of calls with Triton kernels that differ from the references which their directives name."""
    tuning_changes: tuple[TuningChange, ...] = ()
    """Autotuned Triton kernels whose first result is wrong, as timed runs change a tensor that they read."""
    address_checks: tuple[AddressCheckResult, ...] = ()
    """Launches of which only addresses were checked: on fake tensors, or because their values take too long."""
    varied_calls: tuple[VariedCalls, ...] = ()
    """Calls with other sizes and strides than those of the directives, whose launches were checked as well."""
    trials: tuple[CureTrial, ...] = ()
    """Cures of its recompilations that were tried on its calls, by further runs."""
    results: ResultComparison | None = None
    """The results of its compiled calls, compared with those of the same calls in eager mode, if requested."""
    reproduction: Reproduction | None = None
    """Parts of a small program that shows a fault of the compiler, or a run of one, if requested."""
    memory: tuple[MemoryEstimate, ...] = ()
    """What each of its calls allocates, in eager mode and compiled, if requested."""
