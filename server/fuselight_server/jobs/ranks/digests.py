"""What is kept of the log of a rank: small, and shared between ranks that did the same.

Invariant: a digest never holds a text of a graph or of guards, only its hash and its place in the log, so that a
thousand ranks fit into memory. What is equal in two ranks is one object.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TypeVar

from fuselight.shared.report import Location
from fuselight.shared.torch_texts import Reason
from fuselight_server.explain.findings.breaks.break_texts import title_of
from fuselight_server.jobs.ranks.normalization import (
    collectives_in,
    comparable_error,
    comparable_graph,
    comparable_guards,
    comparable_reason,
    path_tail,
    short_hash,
)
from fuselight_server.jobs.trace_log.files import LogError
from fuselight_server.jobs.trace_log.libraries import is_library, is_wrapper
from fuselight_server.jobs.trace_log.log_ends import LogEnd, log_end
from fuselight_server.jobs.trace_log.model import (
    AttemptState,
    CacheName,
    CacheState,
    CompileId,
    GraphKind,
    LoggedCompile,
    LoggedSymbol,
    Payload,
    ProcessLog,
    TimelinePhase,
)
from fuselight_server.jobs.trace_log.payloads import read_texts

Value = TypeVar("Value")

_KEPT_PHASES = (
    "dynamo",
    "entire_frame_compile",
    "entire_backward_compile",
    "bytecode_tracing",
    "backend_compile",
    "create_aot_dispatcher_function",
    "compile_fx",
    "fx_codegen_and_compile",
    "inductor_compile",
    "async_compile.wait",
    "build_guards",
)
"""Prefixes of the phases of a timeline; others lie inside them."""
MAX_PHASES = 400
"""Phases of a rank that are kept; fewer for each of many ranks."""
_COMPILED_AUTOGRAD = "compiled autograd"


@dataclass(frozen=True, slots=True)
class FunctionKey:
    """A compiled function, with the functions that go on after its graph breaks."""

    path: str
    """Its file and the file's folder: machines of a job can have the source at different places."""
    line: int
    function: str


@dataclass(frozen=True, slots=True)
class CompileContent:
    """What a compile did, as far as ranks are compared in it."""

    state: AttemptState
    resumed_at: int | None
    reasons: tuple[str, ...] | None
    """Why it compiled again, without values."""
    breaks: tuple[tuple[str, int, str], ...]
    """File, line and title."""
    graphs: tuple[str, ...]
    """Hashes of Dynamo's graphs."""
    has_backward: bool | None
    """Whether AOTAutograd made a graph for training; None if it made none."""
    collectives: tuple[str, ...]
    guards: str | None
    error: str | None


@dataclass(frozen=True, slots=True)
class CompileDigest:
    """A compile of a rank. All but its content and its function may differ between equal ranks."""

    key: FunctionKey
    content: CompileContent
    id: str
    location: Location | None
    callers: frozenset[tuple[str, str]]
    """File and function of each frame on the stack."""
    caller: Location | None
    """The innermost line of the user's code that led to the compile."""
    reasons: tuple[str, ...] | None
    """As torch wrote them."""
    symbols: tuple[LoggedSymbol, ...]
    """Of a recompilation."""
    breaks: tuple[tuple[Location, str], ...]
    broken: frozenset[tuple[str, str]]
    """File and function of each frame that a graph break lies in: torch compiles these functions on their own."""
    error: str | None
    caches: tuple[tuple[CacheName, CacheState], ...]
    started: float | None
    seconds: float | None
    graphs: tuple[Payload, ...]
    guards: Payload | None

    @property
    def user_line(self) -> Location | None:
        """The line of the function; of a library's, the user's line that led to it."""
        is_own = self.location is None or not is_library(self.location.path)
        return self.location if is_own or self.caller is None else self.caller

    @property
    def name(self) -> str | None:
        """The function; None for the one that torch wraps around a library's module."""
        return None if is_wrapper(self.location) else self.key.function or None


@dataclass(frozen=True, slots=True)
class RankDigest:
    """A rank's log: what is left of it for the comparison."""

    log: ProcessLog
    """Without its compiles, phases and cache events."""
    compiles: tuple[CompileDigest, ...]
    phases: tuple[TimelinePhase, ...]
    is_cut: bool
    """Whether phases were left out."""
    hits: int
    misses: int
    bypasses: int
    unread: int
    """Compiles that were not compared, because their text could not be read or they name no function."""
    end: LogEnd

    @property
    def has_ended_early(self) -> bool:
        """Whether the log may lack later records: that it has no further compile then says nothing."""
        return (
            not self.log.is_complete
            or self.log.is_truncated
            or bool(self.log.not_kept)
            or self.end.compile is not None
            or any(compiled.content.state is AttemptState.UNFINISHED for compiled in self.compiles)
        )


@dataclass
class SharedParts:
    """Equal values as one object, for all ranks, and what was read of texts: a job that grows is not read again."""

    texts: dict[Payload, TextDigest] = field(default_factory=dict)
    _values: dict[object, object] = field(default_factory=dict)

    def share(self, value: Value) -> Value:
        """The first value that equals this one."""
        return self._values.setdefault((type(value), value), value)  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class TextDigest:
    """The hash of a comparable text; of a graph, its collectives, too."""

    hash: str
    collectives: tuple[str, ...] = ()


def digest(
    process: ProcessLog, parts: SharedParts | None = None, *, most_phases: int = MAX_PHASES
) -> RankDigest:
    """What is compared of a process."""
    parts = parts or SharedParts()
    keys = _keys(process.compiles)
    _read_texts(process.compiles, parts)
    compiles = [
        _compile(compiled, keys[compiled.id], parts)
        for compiled in process.compiles
        if compiled.id in keys and all(payload in parts.texts for payload in _texts_of(compiled))
    ]
    phases = [phase for phase in process.phases if phase.depth == 0 or phase.name.startswith(_KEPT_PHASES)]
    states = [event.state for event in process.cache_events]
    return RankDigest(
        replace(process, compiles=(), phases=(), cache_events=()),
        tuple(compiles),
        tuple(phases[:most_phases]),
        len(phases) > most_phases,
        states.count(CacheState.HIT),
        states.count(CacheState.MISS),
        states.count(CacheState.BYPASS),
        len(process.compiles) - len(compiles),
        log_end(process),
    )


def _keys(compiles: Iterable[LoggedCompile]) -> dict[CompileId, FunctionKey]:
    """The function of each compile; none for a compile that names no function."""
    keys: dict[CompileId, FunctionKey] = {}
    frames: dict[int, FunctionKey] = {}
    for compiled in compiles:
        key = _key(compiled, frames)
        if key is not None:
            keys[compiled.id] = key
            if compiled.id.frame is not None:
                frames[compiled.id.frame] = key
    return keys


def _key(compiled: LoggedCompile, frames: dict[int, FunctionKey]) -> FunctionKey | None:
    location = compiled.location
    if compiled.id.frame is None:
        return FunctionKey("", 0, _COMPILED_AUTOGRAD)
    if location is None:
        return frames.get(compiled.id.frame)
    if compiled.last.resumed_at is None:
        return FunctionKey(path_tail(location.path), location.line, location.function or "")
    starts = [
        key
        for key in frames.values()
        if (key.path, key.function) == (path_tail(location.path), location.function)
        and key.line <= location.line
    ]
    return max(
        starts,
        key=lambda key: key.line,
        default=FunctionKey(path_tail(location.path), location.line, location.function or ""),
    )


def _read_texts(compiles: Iterable[LoggedCompile], parts: SharedParts) -> None:
    """Hash the graphs and guards that were not read before; each text is dropped once it is hashed."""
    graphs = {payload for compiled in compiles for payload in _graphs(compiled)}
    wanted = {payload for compiled in compiles for payload in _texts_of(compiled)} - parts.texts.keys()
    try:
        for payload, text in read_texts(wanted):
            if payload in graphs:
                item = TextDigest(short_hash(comparable_graph(text)), collectives_in(text))
            else:
                item = TextDigest(short_hash("\n".join(sorted(comparable_guards(text)))))
            parts.texts[payload] = parts.share(item)
    except LogError:
        return


def _texts_of(compiled: LoggedCompile) -> tuple[Payload, ...]:
    guards = _guards(compiled)
    return (*_graphs(compiled), *(() if guards is None else (guards,)))


def _graphs(compiled: LoggedCompile) -> tuple[Payload, ...]:
    """Dynamo's graphs of the attempt that decided."""
    return tuple(graph.payload for graph in compiled.last.graphs if graph.kind is GraphKind.DYNAMO)


def _guards(compiled: LoggedCompile) -> Payload | None:
    guards = compiled.last.guards
    return None if guards is None else guards.payload


def _has_backward(compiled: LoggedCompile) -> bool | None:
    kinds = {graph.kind for graph in compiled.last.graphs}
    if kinds & {GraphKind.JOINT, GraphKind.FORWARD}:
        return True
    return False if GraphKind.INFERENCE in kinds else None


def _caller(compiled: LoggedCompile) -> Location | None:
    return next((frame.location for frame in reversed(compiled.stack) if not is_library(frame.path)), None)


def _break_title(cause: Reason) -> str:
    """What broke the graph, as a finding of the break says it."""
    return title_of(cause.gb_id, cause.title, cause.explanation, cause.context)


def _compile(compiled: LoggedCompile, key: FunctionKey, parts: SharedParts) -> CompileDigest:
    """What is kept of a compile of a rank when its logs are closed.

    `content` has only what must be equal on all ranks: paths are cut to their tails, and reasons and errors lose ids
    and addresses, because ranks of other machines differ in these. Equal parts are shared, as a job of 1,000 ranks has
    1,000 copies of each.
    """
    graphs, guards, reasons = _graphs(compiled), _guards(compiled), compiled.recompile_reasons
    error = next((item.summary for attempt in compiled.attempts for item in attempt.errors), None)
    if error is None and compiled.metrics is not None:
        error = compiled.metrics.fail_reason
    breaks = tuple((item.location, _break_title(item.chain[0])) for item in compiled.breaks)
    content = CompileContent(
        state=compiled.state,
        resumed_at=compiled.last.resumed_at,
        reasons=None if reasons is None else tuple(sorted({comparable_reason(text) for text in reasons})),
        breaks=tuple((path_tail(place.path), place.line, title) for place, title in breaks),
        graphs=tuple(parts.texts[payload].hash for payload in graphs),
        has_backward=_has_backward(compiled),
        collectives=tuple(name for payload in graphs for name in parts.texts[payload].collectives),
        guards=None if guards is None else parts.texts[guards].hash,
        error=None if error is None else comparable_error(error),
    )
    return CompileDigest(
        key=parts.share(key),
        content=parts.share(content),
        id=str(compiled.id),
        location=compiled.location,
        callers=parts.share(
            frozenset((path_tail(frame.path), frame.function) for frame in compiled.stack[:-1])
        ),
        caller=parts.share(_caller(compiled)),
        reasons=reasons,
        symbols=() if reasons is None else parts.share(compiled.symbols),
        breaks=parts.share(breaks),
        broken=parts.share(
            frozenset(
                (path_tail(frame.path), frame.function) for item in compiled.breaks for frame in item.stack
            )
        ),
        error=error,
        caches=parts.share(tuple((event.cache, event.state) for event in compiled.cache_events)),
        started=None if compiled.metrics is None else compiled.metrics.started,
        seconds=compiled.seconds,
        graphs=graphs,
        guards=guards,
    )
