"""What the caches of torch.compile did in a job, and where the time of its start went, as data.

Invariant: a fact that no log has is None. Seconds that a cache would have saved are an estimate: a hit takes time,
too, and no log of a miss says how much.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from fuselight.shared.report import Location
from fuselight_server.jobs.trace_log.model import CacheName, CacheState, CompileId


class Factor(Enum):
    """What a component of a cache key depends on."""

    SETTING = "setting"
    """A setting of Inductor, AOTAutograd or Dynamo."""
    BACKEND_ARGUMENT = "backend_argument"
    """An argument that torch.compile passes to the backend: CUDA graphs, the number of static inputs, ..."""
    MATMUL = "matmul"
    """Precision of matrix multiplications."""
    DETERMINISM = "determinism"
    DEFAULT_DTYPE = "default_dtype"
    DEFAULT_DEVICE = "default_device"
    THREADS = "threads"
    GRAD_MODE = "grad_mode"
    AUTOCAST = "autocast"
    INPUT = "input"
    """Shape, stride, dtype, device or kind of an input of the graph."""
    GRAPH = "graph"
    """The operators of the graph: a source line, or a value that Dynamo made part of it."""
    KERNEL_SOURCE = "kernel_source"
    """Source of a Triton kernel that the program defines."""
    CUSTOM_PASS = "custom_pass"  # noqa: S105 - not a password
    TAG = "tag"
    """TORCH_COMPILE_CACHE_KEY_TAG."""
    TORCH = "torch"
    """The installed torch."""
    SYSTEM = "system"
    """Device, driver, CUDA, Triton."""
    ENVIRONMENT = "environment"
    """An environment variable that differs, beside the components that it changes."""
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class ChangedLine:
    """Operators of a graph that differ between two compiles, with their line of source.

    The texts are what the logs quote: source if torch quoted it, else operators. `before` is None for what was added,
    `after` for what was removed. `location` is None if torch printed no line above the operators.
    """

    location: Location | None
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class KeyChange:
    """One component of a cache key that differs between two compiles."""

    factor: Factor
    component: str
    """As torch names it: `inductor_config[max_fusion_size]`."""
    subject: str
    """In plain words: `torch._inductor.config.max_fusion_size`, `input 0`, `the graph`."""
    before: str | None
    """None: only its hash is recorded, or the key did not have the component."""
    after: str | None
    lines: tuple[ChangedLine, ...] = ()
    """For a changed graph: first difference first, at most 20."""

    @property
    def text(self) -> str:
        """`torch._inductor.config.max_fusion_size: 64 -> 32`."""
        if self.before is None and self.after is None:
            return f"{self.subject} changed"
        return f"{self.subject}: {self.before or 'absent'} -> {self.after or 'absent'}"


class CauseKind(Enum):
    """How sure a cause is, and of what kind."""

    KEY_CHANGED = "key_changed"
    """Components of the key differ from those of an earlier compile."""
    NOT_COMPARED = "not_compared"
    """No other log has this compile: the cache was empty, or the key is new; a log alone cannot tell which."""
    NEW = "new"
    """The start that it is compared with did not compile this function, or not this often."""
    NOT_RECORDED = "not_recorded"
    """The keys differ, and the log does not list their components."""
    SAME_KEY = "same_key"
    """An earlier start had the same key: its entry was not kept, or the two starts use different cache folders."""
    NO_BACKWARD = "no_backward"
    """An earlier start had the same key, and compiled no backward: AOTAutograd writes an entry after that."""
    GUARDS = "guards"
    """The key was known, but the guards of the entry did not hold (`guard_miss`)."""
    BYPASS = "bypass"
    """torch cannot cache this compile."""
    DISABLED = "disabled"
    """A setting switches the cache off."""


class CureRewrite(Enum):
    """A change of the source that lets a cache hit."""

    AUTOCAST_OUTSIDE = "autocast_outside"
    """Of `CacheCause.location`, which enters autocast."""
    FUNCTION_KEY = "function_key"
    """Of the function `Cure.subject`, which the graph calls."""
    PASS_KEY = "pass_key"  # noqa: S105 - not a password


@dataclass(frozen=True, slots=True)
class Cure:
    """What to change so that the next start hits."""

    text: str
    """One or two sentences."""
    setting: str | None = None
    """A setting of torch to change, if that is the cure."""
    value: bool | None = None
    """The value of the setting, where it can be tried: it changes what is cached, and nothing else."""
    rewrite: CureRewrite | None = None
    """The change of the source that is the cure, if there is a known one."""
    subject: str | None = None
    """What the rewrite is about, as torch names it: `__main__.folded`."""

    @property
    def has_fix(self) -> bool:
        """Whether `fuselight fix --warm` can try it."""
        return self.rewrite is not None or (self.setting is not None and self.value is not None)


@dataclass(frozen=True, slots=True)
class CacheCause:
    """Why a cache missed or was bypassed."""

    kind: CauseKind
    text: str
    """One sentence in plain words."""
    location: Location | None = None
    """The line in the graph that has it; None: the compiled function."""
    changes: tuple[KeyChange, ...] = ()
    cure: Cure | None = None
    torch_reason: str | None = None
    """As torch recorded it."""


@dataclass(frozen=True, slots=True)
class CacheResult:
    """What one compile got from one cache."""

    cache: CacheName
    state: CacheState
    compile_id: CompileId | None
    rank: int | None
    file: str
    """The log."""
    function: str | None
    location: Location | None
    """The compiled function."""
    key: str | None
    is_remote: bool | None
    """Whether a remote cache answered; None if the log does not say."""
    count: int
    """Lookups with this result; more than 1 where torch records only their number."""
    saved_seconds: float | None
    """Of a hit: what torch recorded at the compile that the hit replaces."""
    lost_seconds: float | None
    """Of a miss or bypass: what this part of the compile took, an estimate of what a hit would have saved."""
    causes: tuple[CacheCause, ...] = ()

    @property
    def is_lost(self) -> bool:
        """Whether the compile had to do the work."""
        return self.state in {CacheState.MISS, CacheState.BYPASS}


@dataclass(frozen=True, slots=True)
class CacheTotal:
    """All results of one cache, local or remote."""

    cache: CacheName
    is_remote: bool
    hits: int
    misses: int
    bypasses: int
    saved_seconds: float | None
    lost_seconds: float | None


@dataclass(frozen=True, slots=True)
class CacheSummary:
    """What the caches did in a job."""

    results: tuple[CacheResult, ...]
    """Each lookup, in the order of processes and compiles; SAVED is left out."""
    totals: tuple[CacheTotal, ...]
    """One for each cache that the logs have records of; remote caches count apart."""
    compared_with: str | None
    """Name of the job or start whose keys the causes compare with; None: nothing to compare with."""
    notes: tuple[str, ...] = ()
    """What the logs cannot tell, and how to record it."""

    @property
    def lost(self) -> tuple[CacheResult, ...]:
        """Misses and bypasses, the most expensive first."""
        rows = [row for row in self.results if row.is_lost]
        return tuple(sorted(rows, key=lambda row: -(row.lost_seconds or 0.0)))


class StartStage(Enum):
    """A part of a program's start, in the order in which a compile passes them."""

    IMPORTS = "imports"
    """Of Python modules, before the first compile."""
    PROGRAM = "code_before_first_compile"
    """What else the program does before it: reads data, builds models."""
    TRACING = "tracing"
    """Dynamo: bytecode to graph, guards."""
    AOTAUTOGRAD = "aotautograd"
    """Forward and backward graph, decompositions."""
    CODE_GENERATION = "code_generation"
    """Inductor: passes, lowering, scheduling, code."""
    COMPILING = "compiling"
    """Triton, the C++ compiler, loading of what they made."""
    AUTOTUNING = "autotuning"
    CUDA_GRAPHS = "cuda_graphs"
    """Recording of CUDA graphs."""
    CACHES = "caches"
    """Keys, lookups, reading and writing of caches."""
    OTHER = "other"
    """Phases of the compiler that Fuselight does not know."""
    COMPILES = "compiles"
    """All stages of compiles, where no log divides them."""


@dataclass(frozen=True, slots=True)
class StageTime:
    """Seconds of one stage."""

    stage: StartStage
    seconds: float


@dataclass(frozen=True, slots=True)
class LineStart:
    """What the start spent on the compiles of one function, or on what one line imports."""

    location: Location | None
    """The function's `def`, or its first decorator where the source is not known, or the line that imports; None for
    phases of no compile, and for imports of no line of the user's."""
    function: str | None
    compiles: int
    stages: tuple[StageTime, ...]
    """Those with time, in the order of `StartStage`."""
    saved_by_second_start: float | None
    """Estimate, seconds; None if the log has no record of the caches."""
    modules: tuple[str, ...] = ()
    """Of a line that imports: the slowest modules; empty for a function, and for imports of no line."""
    module_count: int = 0
    with_nested: float | None = None
    """Of a line that imports: seconds with the lines of the user's modules that it imports, which are listed, too."""

    @property
    def seconds(self) -> float:
        """All stages together."""
        return sum(part.seconds for part in self.stages)

    @property
    def is_import(self) -> bool:
        """Whether it is a line that imports, or all imports of no line."""
        return any(part.stage is StartStage.IMPORTS for part in self.stages)


@dataclass(frozen=True, slots=True)
class StartPicture:
    """The start of one process: what its compiles took, and what came before the first of them."""

    file: str
    rank: int | None
    is_import_known: bool
    """Whether the imports are part of it: a log begins with the first compile unless Fuselight started the process."""
    stages: tuple[StageTime, ...]
    """Totals of those with time, in the order of `StartStage`."""
    lines: tuple[LineStart, ...]
    """Functions and lines that import, the most expensive first."""
    saved_by_second_start: float | None
    """Estimate, seconds, of what a second start with the same caches would not do; None if the logs do not show it."""
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float:
        """All stages together; what the program did between its compiles is not part of it."""
        return sum(part.seconds for part in self.stages)

    @property
    def compile_seconds(self) -> float:
        """The stages of compiles: without what was before the first one."""
        before = {StartStage.IMPORTS, StartStage.PROGRAM}
        return sum(part.seconds for part in self.stages if part.stage not in before)
