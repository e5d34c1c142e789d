"""What the structured logs of a job contain, as data.

Invariant: a fact that a log does not have is None; an empty tuple was recorded as empty. Long texts stay in the file
and are read on demand through their `Payload`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from fuselight.shared.report import Imports, Location
from fuselight.shared.torch_texts import Reason


@dataclass(frozen=True, slots=True)
class Payload:
    """A text in a log: `payloads.read_text` reads it. Offsets count bytes of the unpacked file."""

    file: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class CompileId:
    """The ID of a compile as torch counts: `0/1`, or `!2/0/1` under compiled autograd."""

    frame: int | None
    frame_compile: int | None
    autograd: int | None = None

    def __str__(self) -> str:
        """As torch prints it."""
        frame = "" if self.frame is None else f"{self.frame}/{self.frame_compile}"
        if self.autograd is None:
            return frame
        return f"!{self.autograd}/{frame}" if frame else f"!{self.autograd}"


@dataclass(frozen=True, slots=True)
class LogFrame:
    """A frame of a Python stack. `text` is its line of source, if the log quotes it."""

    path: str
    line: int
    function: str
    """Without the decoration of resume functions."""
    text: str | None = None

    @property
    def location(self) -> Location:
        """The same as a location of a Report."""
        return Location(self.path, self.line, function=self.function)


LogStack = tuple[LogFrame, ...]
"""Outermost frame first."""


@dataclass(frozen=True, slots=True)
class GraphBreak:
    """A graph break that Dynamo handled."""

    location: Location
    """The line that the record names."""
    chain: tuple[Reason, ...]
    """The cause first, then what torch met while it handled the break. Never empty."""
    stack: LogStack
    """The user's stack, as printed."""
    payload: Payload
    ends_function: bool = False
    """Whether torch cannot resume the function after it, so that its rest runs in eager mode."""


@dataclass(frozen=True, slots=True)
class LoggedSymbol:
    """A size that became a symbol. `hint` is None for a size that no input has (unbacked)."""

    name: str
    hint: str | None
    source: str | None
    """Dynamo's name of its origin: `L['x'].size()[0]`."""
    range: str | None
    stack: LogStack


@dataclass(frozen=True, slots=True)
class Specialization:
    """A symbol that was fixed to a value."""

    symbol: str
    sources: tuple[str, ...]
    value: str
    reason: str
    stack: LogStack


@dataclass(frozen=True, slots=True)
class SymbolGuard:
    """A condition on symbols that the user's code asked for."""

    expression: str
    stack: LogStack


@dataclass(frozen=True, slots=True)
class GuardCount:
    """The guards of a compile: how many, and the time of a check in µs, if recorded."""

    count: int
    latency_us: float | None
    payload: Payload | None


class GraphKind(Enum):
    """Which stage of the compiler printed a graph."""

    DYNAMO = "dynamo"
    JOINT = "joint"
    FORWARD = "forward"
    BACKWARD = "backward"
    INFERENCE = "inference"
    POST_GRAD = "post_grad"
    COMPILED_AUTOGRAD = "compiled_autograd"


@dataclass(frozen=True, slots=True)
class LoggedGraph:
    """A printed graph: `graphs.read_lines` parses its text."""

    kind: GraphKind
    payload: Payload


@dataclass(frozen=True, slots=True)
class OutputCode:
    """A module that Inductor generated. `filename` is its path on the job's machine."""

    filename: str | None
    payload: Payload


@dataclass(frozen=True, slots=True)
class CompileError:
    """An exception that a compile raised: its last line; the traceback is the payload."""

    summary: str
    payload: Payload


@dataclass(frozen=True, slots=True)
class CompileMetrics:
    """The fields of torch's metrics of one compile that Fuselight uses. `payloads.read_head` reads the others."""

    is_backward: bool
    """Whether a backward was compiled at its first call, after the forward."""
    function: str | None
    path: str | None
    line: int | None
    started: float | None
    """Seconds since the epoch."""
    seconds: float | None
    inductor_seconds: float | None
    operators: int | None
    guards: int | None
    graph_breaks: int | None
    fail_type: str | None
    fail_reason: str | None
    restarts: tuple[str, ...]
    head: Payload


class CacheName(Enum):
    """A cache of torch.compile."""

    FX_GRAPH = "fx_graph"
    AOTAUTOGRAD = "aotautograd"
    DYNAMO = "dynamo"
    PRECOMPILE = "precompile"
    AUTOTUNE = "autotune"
    TRITON = "triton"
    PROFILE = "pgo"
    """What Dynamo remembers of dynamic shapes (automatic dynamic)."""
    OTHER = "other"


class CacheState(Enum):
    """What a compile got from a cache."""

    HIT = "hit"
    MISS = "miss"
    BYPASS = "bypass"
    SAVED = "saved"


@dataclass(frozen=True, slots=True)
class CacheComponent:
    """One factor of a cache key: `inductor_config[max_fusion_size]`, `example_inputs[0]`, `gm`."""

    name: str
    hash: str
    value: str


@dataclass(frozen=True, slots=True)
class CacheEvent:
    """What happened at one lookup in a cache."""

    cache: CacheName
    state: CacheState
    record: str
    """Name of the record, as torch writes it."""
    compile_id: CompileId | None
    key: str | None
    is_remote: bool | None
    """Whether the remote cache answered; None if the record does not say."""
    time_saved: float | None
    """Seconds that a hit saved, as torch recorded it at the compile that it replaces."""
    detail: str | None
    """torch's own word for the state: `full_miss`, `guard_miss`."""
    reason: str | None
    """Why the cache was bypassed."""
    exception: str | None
    components: int | None
    """Number of factors of the key that the log lists: `payloads.read_components` reads them. None if it has no list.

    AOTAutograd writes an empty list unless its logger `torch._functorch._aot_autograd.autograd_cache` is on DEBUG.
    """
    time: float | None
    """Seconds since the epoch."""
    payload: Payload


@dataclass(frozen=True, slots=True)
class TimelinePhase:
    """A part of compile time. `end` is None if the log ends before it."""

    name: str
    start: float
    """Seconds since the epoch."""
    end: float | None
    depth: int
    """Number of phases around it."""
    compile_id: CompileId | None


class AttemptState(Enum):
    """How an attempt to compile a frame ended."""

    FINISHED = "finished"
    RESTARTED = "restarted"
    FAILED = "failed"
    UNFINISHED = "unfinished"
    """The log has its start and no end."""
    REFUSED = "refused"
    """The frame is at its recompile limit: torch recorded why no cache entry matched, and compiled nothing."""
    UNKNOWN = "unknown"
    """The log has records of it, but neither start nor metrics."""


@dataclass(frozen=True, slots=True)
class CompileAttempt:
    """One attempt of Dynamo to compile a frame: it starts again after a graph break or a specialization."""

    id: CompileId
    attempt: int
    state: AttemptState
    stack: LogStack
    """The Python stack at the start, the compiled function last; empty if the log does not have the start."""
    resumed_at: int | None = None
    """The line where a resume function goes on after a graph break."""
    breaks: tuple[GraphBreak, ...] = ()
    recompile_reasons: tuple[str, ...] | None = None
    """Why no cache entry matched, one text for each entry. None: not a recompilation."""
    guards: GuardCount | None = None
    symbols: tuple[LoggedSymbol, ...] = ()
    specializations: tuple[Specialization, ...] = ()
    symbol_guards: tuple[SymbolGuard, ...] = ()
    graphs: tuple[LoggedGraph, ...] = ()
    output_codes: tuple[OutputCode, ...] = ()
    cache_events: tuple[CacheEvent, ...] = ()
    metrics: tuple[CompileMetrics, ...] = ()
    errors: tuple[CompileError, ...] = ()


@dataclass(frozen=True, slots=True)
class LoggedCompile:
    """A compile of a frame: the attempts with the same ID, in order. Never empty."""

    id: CompileId
    attempts: tuple[CompileAttempt, ...]

    @property
    def last(self) -> CompileAttempt:
        """The attempt that decided."""
        return self.attempts[-1]

    @property
    def state(self) -> AttemptState:
        """How the compile ended."""
        return self.last.state

    @property
    def metrics(self) -> CompileMetrics | None:
        """Torch's metrics of the forward; None if the log ends before them."""
        return next(
            (row for attempt in reversed(self.attempts) for row in attempt.metrics if not row.is_backward),
            None,
        )

    @property
    def seconds(self) -> float | None:
        """Compile time of the forward, and of the backward, which torch compiles at its first call."""
        rows = [row for attempt in self.attempts for row in attempt.metrics if row.is_backward]
        rows += [] if self.metrics is None else [self.metrics]
        known = [row.seconds for row in rows if row.seconds is not None]
        return sum(known) if known else None

    @property
    def stack(self) -> LogStack:
        """The Python stack at the start, the compiled function last."""
        return next((attempt.stack for attempt in self.attempts if attempt.stack), ())

    @property
    def function(self) -> str | None:
        """The compiled function, without the decoration of resume functions."""
        location = self.location
        return None if location is None else location.function

    @property
    def location(self) -> Location | None:
        """The compiled function's first line."""
        if self.stack:
            return self.stack[-1].location
        metrics = self.metrics
        if metrics is None or metrics.path is None or metrics.line is None:
            return None
        return Location(metrics.path, metrics.line, function=metrics.function)

    @property
    def breaks(self) -> tuple[GraphBreak, ...]:
        """Of all attempts, in order."""
        return tuple(item for attempt in self.attempts for item in attempt.breaks)

    @property
    def recompile_reasons(self) -> tuple[str, ...] | None:
        """Why no cache entry matched; None: not a recompilation."""
        return next(
            (attempt.recompile_reasons for attempt in self.attempts if attempt.recompile_reasons is not None),
            None,
        )

    @property
    def graphs(self) -> tuple[LoggedGraph, ...]:
        """Of all attempts, in order."""
        return tuple(item for attempt in self.attempts for item in attempt.graphs)

    @property
    def output_codes(self) -> tuple[OutputCode, ...]:
        """Of all attempts, in order."""
        return tuple(item for attempt in self.attempts for item in attempt.output_codes)

    @property
    def cache_events(self) -> tuple[CacheEvent, ...]:
        """Of all attempts, in order."""
        return tuple(item for attempt in self.attempts for item in attempt.cache_events)

    @property
    def symbols(self) -> tuple[LoggedSymbol, ...]:
        """Of the attempt that decided."""
        return self.last.symbols

    @property
    def specializations(self) -> tuple[Specialization, ...]:
        """Of all attempts: a specialization can cause a restart."""
        return tuple(item for attempt in self.attempts for item in attempt.specializations)


class NoteKind(Enum):
    """What a reader of a job should know about its logs."""

    UNREADABLE_FILE = "unreadable_file"
    NOT_A_LOG = "not_a_log"
    LINK = "link"
    TOO_MANY_FILES = "too_many_files"
    BAD_RECORDS = "bad_records"
    TRUNCATED = "truncated"
    SEVERAL_PROCESSES = "several_processes"
    MISSING_RANKS = "missing_ranks"
    OVERLAPPING_JOBS = "overlapping_jobs"
    NOT_KEPT = "not_kept"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class LogNote:
    """Something that a job's logs lack, or that was not read."""

    kind: NoteKind
    message: str
    file: str | None = None


@dataclass(frozen=True, slots=True)
class ProcessLog:
    """What one process of a job recorded."""

    file: str
    process: int | None
    """Process ID on the job's machine; None if no record has the usual prefix."""
    rank: int | None
    torch_version: str | None
    started: float | None
    """Time of the first record, seconds since the epoch."""
    ended: float | None
    """Time of the last record."""
    is_truncated: bool
    """Whether the log ends inside a record."""
    is_complete: bool
    """Whether the reader has reached the end of the log."""
    compiles: tuple[LoggedCompile, ...] = ()
    """In order of their first record."""
    phases: tuple[TimelinePhase, ...] = ()
    """In order of their start."""
    cache_events: tuple[CacheEvent, ...] = ()
    """All, in order; those of a compile are in the compile, too."""
    environment: Mapping[str, str] = field(default_factory=dict)
    """Variables that change what torch compiles, from `environment_record.ALLOWED`; no other variable is kept."""
    imports: Imports | None = None
    """What it imported before its first compile, if `fuselight run` or `fuselight warm` has started it."""
    records: int = 0
    kinds: Mapping[str, int] = field(default_factory=dict)
    """Number of records by name."""
    unknown: Mapping[str, int] = field(default_factory=dict)
    """Those that the reader does not know."""
    bad_records: int = 0
    bad_lines: tuple[tuple[int, str], ...] = ()
    """Offset and cause of the first bad records."""
    not_kept: Mapping[str, int] = field(default_factory=dict)
    """Facts that were counted and not kept, because the job has more than fits into memory."""


@dataclass(frozen=True, slots=True)
class LoggedJob:
    """The logs of one job."""

    name: str
    started: float | None
    ranks: Mapping[int | None, tuple[ProcessLog, ...]]
    """None: processes that recorded no rank."""
    notes: tuple[LogNote, ...] = ()

    @property
    def processes(self) -> Iterator[ProcessLog]:
        """Each process, those of rank 0 first, those without a rank last."""
        for rank in sorted(self.ranks, key=lambda number: (number is None, number or 0)):
            yield from self.ranks[rank]
