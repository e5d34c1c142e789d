"""Puts the records of one process together.

Invariant: no record raises. A bad one is counted with its position, an unknown one by its name, and what is kept has a
bound: the `MemoryBudget` that all processes of a job share.
"""

from __future__ import annotations

import collections
import functools
import json
import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from fuselight.shared import environment_record
from fuselight_server.jobs.trace_log import facts
from fuselight_server.jobs.trace_log.environment import assigned_variables
from fuselight_server.jobs.trace_log.facts import BadRecordError, Strings
from fuselight_server.jobs.trace_log.model import (
    AttemptState,
    CacheEvent,
    CompileAttempt,
    CompileError,
    CompileId,
    CompileMetrics,
    GraphBreak,
    GraphKind,
    GuardCount,
    LoggedCompile,
    LoggedGraph,
    LoggedSymbol,
    LogStack,
    OutputCode,
    Payload,
    ProcessLog,
    Specialization,
    SymbolGuard,
    TimelinePhase,
)
from fuselight_server.jobs.trace_log.payloads import text_of
from fuselight_server.jobs.trace_log.records import MAX_HEAD, MAX_PAYLOAD

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuselight_server.jobs.trace_log.records import RawRecord

MAX_KEPT = 128 << 20
"""Bytes, as estimated, of the facts of a job that are kept."""
_MAX_KINDS = 1_000
_BAD_KEPT = 100
_PROGRAM_START = 16 << 10
_ENVELOPE = frozenset(
    {
        "attempt",
        "compiled_autograd_id",
        "frame_compile_id",
        "frame_id",
        "has_payload",
        "lineno",
        "pathname",
        "process",
        "rank",
        "severity",
        "stack",
        "subgraph_name",
        "thread",
        "timestamp",
    }
)
_GRAPHS = {
    "dynamo_output_graph": GraphKind.DYNAMO,
    "aot_joint_graph": GraphKind.JOINT,
    "aot_forward_graph": GraphKind.FORWARD,
    "aot_backward_graph": GraphKind.BACKWARD,
    "aot_inference_graph": GraphKind.INFERENCE,
    "inductor_post_grad_graph": GraphKind.POST_GRAD,
    "compiled_autograd_graph": GraphKind.COMPILED_AUTOGRAD,
}
_HANDLERS = {
    "str": "_add_string",
    "torch_version": "_add_version",
    "dynamo_start": "_add_start",
    "dynamo_graph_break_reason": "_add_break",
    "recompile_reasons": "_add_reasons",
    "dynamo_cpp_guards_str": "_add_guards",
    "create_symbol": "_add_symbol",
    "create_unbacked_symbol": "_add_symbol",
    "symbolic_shape_specialization": "_add_specialization",
    "guard_added_fast": "_add_symbol_guard",
    "inductor_output_code": "_add_code",
    "dynamo_error": "_add_error",
    "compilation_metrics": "_add_metrics",
    "bwd_compilation_metrics": "_add_metrics",
    "fx_graph_runnable": "_add_program",
    environment_record.RECORD: "_add_environment",
    **dict.fromkeys(_GRAPHS, "_add_graph"),
}
"""Which method takes in a record of a name."""
_COUNTED = re.compile(
    r"describe_|.*BYTECODE$|.*config$|.*_metadata$|before_|after_|backward_(?:pro|epi)logue$|compiled_f|str$|output_alias_wrapper$|"
    r"runtime_wrapper_orchestration$|dynamo_guards$|expression_created$|inductor_provenance_|graph_execution$|"
    r"inductor_runtime_and_tensor_meta$|dump_file$|link$|guard_added$|propagate_real_tensors|aot_\w+$|"
    r"inductor_pre_grad_graph$|dynamo_side_effects$|compiled_autograd_graph_pre_reordering$|compiled_autograd_compile_reasons$"
)
"""Names of records that are known and of which nothing is kept."""
_GLOG = re.compile(
    rb"(?:\[rank\d+\]:)?[VIWEC](?P<time>\d{4} \d\d:\d\d:\d\d\.\d{1,9}) +(?P<process>\d{1,18}) [^\]{]*\] ?"
    rb"(?P<event>\{\"chromium_event\": \{[^{}]*\}(?:, )?)?"
)
_EVENT_START = re.compile(rb'"name": ("(?:[^"\\]|\\.)*"),\s+"ts": ([\d.e+]+)')
_EVENT_KIND = re.compile(rb'"ph": "(\w)"')
_EVENT_COMPILE = re.compile(rb'"compile_id": "(?:!(\d{1,18})/?)?(?:(\d{1,18})/(\d{1,18}))?(?:_\d+)?"')


@dataclass
class MemoryBudget:
    """How much of a job is still kept in memory."""

    left: int = MAX_KEPT

    def takes(self, size: int) -> bool:
        """Whether a fact of this size is kept."""
        if size > self.left:
            return False
        self.left -= size
        return True


@dataclass(slots=True)
class _OpenAttempt:
    """The facts of one attempt that were read up to now."""

    id: CompileId
    number: int
    stack: LogStack = ()
    is_started: bool = False
    resumed_at: int | None = None
    breaks: list[GraphBreak] = field(default_factory=list)
    reasons: tuple[str, ...] | None = None
    guards: GuardCount | None = None
    symbols: dict[str, LoggedSymbol] = field(default_factory=dict)
    specializations: list[Specialization] = field(default_factory=list)
    symbol_guards: list[SymbolGuard] = field(default_factory=list)
    graphs: list[LoggedGraph] = field(default_factory=list)
    output_codes: list[OutputCode] = field(default_factory=list)
    cache_events: list[CacheEvent] = field(default_factory=list)
    metrics: list[CompileMetrics] = field(default_factory=list)
    errors: list[CompileError] = field(default_factory=list)

    def frozen(self, *, is_last: bool) -> CompileAttempt:
        return CompileAttempt(
            id=self.id,
            attempt=self.number,
            state=self._state() if is_last else AttemptState.RESTARTED,
            stack=self.stack,
            resumed_at=self.resumed_at,
            breaks=tuple(self.breaks),
            recompile_reasons=self.reasons,
            guards=self.guards,
            symbols=tuple(self.symbols.values()),
            specializations=tuple(self.specializations),
            symbol_guards=tuple(self.symbol_guards),
            graphs=tuple(self.graphs),
            output_codes=tuple(self.output_codes),
            cache_events=tuple(self.cache_events),
            metrics=tuple(self.metrics),
            errors=tuple(self.errors),
        )

    def _state(self) -> AttemptState:
        if self.reasons is not None and not self.is_started and not self.graphs:
            return AttemptState.REFUSED
        forward = [row for row in self.metrics if not row.is_backward]
        if any(row.fail_type is not None for row in forward):
            return AttemptState.FAILED
        if forward:
            return AttemptState.FINISHED
        return AttemptState.UNFINISHED if self.is_started else AttemptState.UNKNOWN


@dataclass(slots=True)
class RecordEntry:
    """A record with its parsed head."""

    name: str
    value: Any
    raw: RawRecord
    where: Payload
    head: dict[str, Any]

    @property
    def text(self) -> str:
        """The payload's text."""
        self.check_size()
        return text_of(self.raw.payload)

    def check_size(self) -> None:
        """Raise BadRecordError where the payload was too large to look at."""
        if self.raw.payload_length > MAX_PAYLOAD:
            raise BadRecordError(f"the payload of {self.name} is larger than {MAX_PAYLOAD} bytes")


class ProcessAssembly:
    """The facts of one process in one log, read up to now."""

    def __init__(self, file: str, rank: int | None, budget: MemoryBudget) -> None:
        """`rank` is that of the file's name."""
        self._file = file
        self._process: int | None = None
        self._rank = rank
        self._budget = budget
        self._strings = Strings()
        self._compiles: dict[CompileId, dict[int, _OpenAttempt]] = {}
        self._loose_events: list[CacheEvent] = []
        self._phases: list[TimelinePhase] = []
        self._open: list[int] = []
        """Indices of the phases that have started and not ended."""
        self._finished: list[CompileId] = []
        self._version: str | None = None
        self._environment: dict[str, str] = {}
        self._kinds: collections.Counter[str] = collections.Counter()
        self._unknown: collections.Counter[str] = collections.Counter()
        self._not_kept: collections.Counter[str] = collections.Counter()
        self._records = self._bad = 0
        self._bad_lines: list[tuple[int, str]] = []
        self._first_time = self._last_time = b""
        self._clock: tuple[bytes, float] | None = None
        """A printed time, and the same in seconds since the epoch."""
        self.is_truncated = False

    @property
    def rank(self) -> int | None:
        """The rank, as far as the records name it by now."""
        return self._rank

    @property
    def has_records(self) -> bool:
        """Whether a record was read."""
        return self._records > 0

    def accepts_string(self, value: object) -> bool:
        """Whether a record that interns a name can be of this process."""
        return not self._strings.contradicts(value)

    def take_finished(self) -> tuple[LoggedCompile, ...]:
        """The compiles that ended since the last call."""
        ids, self._finished = dict.fromkeys(self._finished), []
        return tuple(_compile(name, self._compiles[name]) for name in ids)

    def skip(self, offset: int, why: str) -> None:
        """Count a record that cannot be read."""
        self._bad += 1
        if len(self._bad_lines) < _BAD_KEPT:
            self._bad_lines.append((offset, why))

    def add(self, raw: RawRecord, parsed: ParsedHead) -> None:
        """Take in a record."""
        self._records += 1
        self._process = parsed.process if self._process is None else self._process
        self._first_time = self._first_time or parsed.time
        self._last_time = parsed.time or self._last_time
        where = Payload(self._file, raw.payload_offset, raw.payload_length)
        try:
            if parsed.is_event:
                self._count("chromium_event")
                self._add_event(raw, parsed)
            else:
                self._add(raw, parsed.head, where)
        except (BadRecordError, ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
            if raw.is_ended:  # else the note of the cut log covers it
                self.skip(raw.offset, str(error)[:200] or type(error).__name__)

    def _add(self, raw: RawRecord, head: dict[str, Any], where: Payload) -> None:
        name, value = _kind_of(head)
        self._count(name)
        rank = facts.integer(head.get("rank"))
        self._rank = self._rank if rank is None else rank
        entry = RecordEntry(name, value, raw, where, head)
        handler = _HANDLERS.get(name)
        if handler is not None:
            getattr(self, handler)(entry)
        elif facts.is_cache_record(name):
            self._add_cache_event(entry)
        elif not _COUNTED.match(name):
            self._unread(name)

    def _count(self, name: str) -> None:
        self._kinds[name if name in self._kinds or len(self._kinds) < _MAX_KINDS else "(others)"] += 1

    def _unread(self, name: str) -> None:
        self._unknown[name if name in self._unknown or len(self._unknown) < _MAX_KINDS else "(others)"] += 1

    def _keeps(self, name: str, size: int) -> bool:
        if self._budget.takes(size + 300):
            return True
        self._not_kept[name] += 1
        return False

    def _attempt(self, head: dict[str, Any]) -> _OpenAttempt | None:
        """The attempt of a record; one without a number belongs to the last attempt of its compile."""
        compile_id = _compile_id(head)
        if compile_id is None:
            return None
        attempts = self._compiles.get(compile_id)
        number = facts.integer(head.get("attempt"))
        if number is None:
            number = max(attempts) if attempts else 0
        if attempts is not None and number in attempts:
            return attempts[number]
        if not self._keeps("compile attempts", 1_200):
            return None
        attempt = _OpenAttempt(compile_id, number)
        self._compiles.setdefault(compile_id, {})[number] = attempt
        return attempt

    def _required(self, entry: RecordEntry) -> _OpenAttempt | None:
        """The attempt of a record that has one; None if it is not kept."""
        if _compile_id(entry.head) is None:
            raise BadRecordError(f"{entry.name} has no compile ID")
        return self._attempt(entry.head)

    def _add_string(self, entry: RecordEntry) -> None:
        if self._keeps("file names", len(str(entry.value))):
            self._strings.add(entry.value)

    def _add_version(self, entry: RecordEntry) -> None:
        body = facts.mapping(json.loads(entry.text))
        self._version = str(body["pytorch_version"])[:100]

    def _add_start(self, entry: RecordEntry) -> None:
        frames = facts.mapping(entry.value).get("stack")
        stack = self._strings.stack(frames)
        attempt = self._required(entry)
        if attempt is not None and self._keeps("stacks", _stack_size(stack)):
            attempt.is_started = True
            attempt.stack = stack
            if isinstance(frames, list) and frames:
                attempt.resumed_at = facts.function_and_resumption(str(frames[-1].get("name")))[1]

    def _add_break(self, entry: RecordEntry) -> None:
        graph_break = facts.read_break(entry.text, entry.where)
        if graph_break is None:
            self._unread("dynamo_graph_break_reason without a location")
            return
        attempt = self._required(entry)
        if attempt is not None and self._keeps("graph breaks", entry.raw.payload_length):
            attempt.breaks.append(graph_break)

    def _add_reasons(self, entry: RecordEntry) -> None:
        reasons = facts.read_recompile_reasons(entry.text)
        attempt = self._required(entry)
        if attempt is not None and self._keeps("recompile reasons", sum(map(len, reasons))):
            attempt.reasons = reasons

    def _add_guards(self, entry: RecordEntry) -> None:
        entry.check_size()
        guards = facts.read_guards(entry.raw.payload, entry.where)
        attempt = self._required(entry)
        if attempt is not None:
            attempt.guards = guards

    def _add_symbol(self, entry: RecordEntry) -> None:
        symbol = facts.read_symbol(
            entry.value, self._strings, is_unbacked=entry.name == "create_unbacked_symbol"
        )
        attempt = self._attempt(entry.head)
        if attempt is not None and self._keeps("symbols", _stack_size(symbol.stack)):
            attempt.symbols[symbol.name] = symbol

    def _add_specialization(self, entry: RecordEntry) -> None:
        fixed = facts.read_specialization(entry.value, self._strings)
        attempt = self._attempt(entry.head)
        if attempt is not None and self._keeps("specializations", _stack_size(fixed.stack)):
            attempt.specializations.append(fixed)

    def _add_symbol_guard(self, entry: RecordEntry) -> None:
        guard = facts.read_symbol_guard(entry.value, self._strings)
        attempt = self._attempt(entry.head)
        if attempt is not None and self._keeps("guards on symbols", _stack_size(guard.stack)):
            attempt.symbol_guards.append(guard)

    def _add_graph(self, entry: RecordEntry) -> None:
        attempt = self._attempt(entry.head)
        if attempt is not None and self._keeps("graphs", 0):
            attempt.graphs.append(LoggedGraph(_GRAPHS[entry.name], entry.where))

    def _add_code(self, entry: RecordEntry) -> None:
        name = entry.value.get("filename") if isinstance(entry.value, dict) else None
        attempt = self._attempt(entry.head)
        if attempt is not None and self._keeps("generated code", 0):
            attempt.output_codes.append(OutputCode(None if name is None else str(name), entry.where))

    def _add_error(self, entry: RecordEntry) -> None:
        error = facts.read_error(entry.text, entry.where)
        attempt = self._attempt(entry.head)
        if attempt is not None and self._keeps("errors", len(error.summary)):
            attempt.errors.append(error)

    def _add_metrics(self, entry: RecordEntry) -> None:
        where = Payload(self._file, entry.raw.offset, len(entry.raw.head))
        metrics = facts.read_metrics(entry.value, where, is_backward=entry.name == "bwd_compilation_metrics")
        if self._version is None:  # torch 2.11 has no record of its own for it
            self._version = facts.version_in(entry.value)
        attempt = self._required(entry)
        if attempt is not None and self._keeps("metrics", sum(map(len, metrics.restarts))):
            attempt.metrics.append(metrics)
            self._finished.append(attempt.id)

    def _add_cache_event(self, entry: RecordEntry) -> None:
        compile_id = _compile_id(entry.head)
        event = facts.read_cache_event(entry.name, entry.text, entry.where, compile_id)
        if not self._keeps("cache events", len(event.reason or "")):
            return
        self._loose_events.append(event)
        attempt = self._attempt(entry.head)
        if attempt is not None:
            attempt.cache_events.append(event)

    def _add_program(self, entry: RecordEntry) -> None:
        for name, value in assigned_variables(text_of(entry.raw.payload[:_PROGRAM_START])).items():
            self._environment.setdefault(name, value)

    def _add_environment(self, entry: RecordEntry) -> None:
        self._environment |= environment_record.allowed_variables(facts.mapping(json.loads(entry.text)))

    def _add_event(self, raw: RawRecord, parsed: ParsedHead) -> None:
        payload = raw.payload
        start = _EVENT_START.search(payload, 0, 2_000)
        kind = _EVENT_KIND.search(payload, max(0, len(payload) - 200)) or _EVENT_KIND.search(payload)
        if start is None or kind is None:
            self._add_odd_event(payload)
            return
        name = _event_name(start[1])
        time = float(start[2]) / 1e6
        if self._clock is None and parsed.time:
            self._clock = (parsed.time, time)
        if kind[1] == b"B":
            self._start_phase(name, time, _event_compile(parsed.ids, payload))
        elif kind[1] == b"E":
            self._end_phase(name, time)

    def _add_odd_event(self, payload: bytes) -> None:
        """An event whose fields stand in another order."""
        event = facts.mapping(json.loads(payload))
        name, time = str(event.get("name")), float(event.get("ts", "nan")) / 1e6
        if event.get("ph") == "B":
            self._start_phase(name, time, None)
        elif event.get("ph") == "E":
            self._end_phase(name, time)

    def _start_phase(self, name: str, time: float, compile_id: CompileId | None) -> None:
        if self._keeps("phases", 0):
            self._phases.append(TimelinePhase(name, time, None, len(self._open), compile_id))
            self._open.append(len(self._phases) - 1)

    def _end_phase(self, name: str, time: float) -> None:
        for position in range(len(self._open) - 1, -1, -1):
            index = self._open[position]
            if self._phases[index].name == name:
                phase = self._phases[index]
                self._phases[index] = TimelinePhase(name, phase.start, time, phase.depth, phase.compile_id)
                del self._open[position]
                return

    def log(self, *, is_complete: bool) -> ProcessLog:
        """Everything that was read up to now."""
        return ProcessLog(
            file=self._file,
            process=self._process,
            rank=self._rank,
            torch_version=self._version,
            started=self._seconds(self._first_time),
            ended=self._seconds(self._last_time),
            is_truncated=self.is_truncated,
            is_complete=is_complete,
            compiles=tuple(_compile(name, attempts) for name, attempts in self._compiles.items()),
            phases=tuple(sorted(self._phases, key=lambda phase: (phase.start, phase.depth))),
            cache_events=tuple(self._loose_events),
            environment=dict(self._environment),
            records=self._records,
            kinds=dict(self._kinds),
            unknown=dict(self._unknown),
            bad_records=self._bad,
            bad_lines=tuple(self._bad_lines),
            not_kept=dict(self._not_kept),
        )

    def _seconds(self, printed: bytes) -> float | None:
        """A printed time in seconds since the epoch: an event with both times gives year and zone."""
        if self._clock is None or not printed:
            return None
        moment, start = _moment(printed), _moment(self._clock[0])
        if moment is None or start is None:
            return None
        passed = (moment - start).total_seconds()
        half_a_year = timedelta(days=183).total_seconds()
        if passed < -half_a_year:
            passed += timedelta(days=366).total_seconds()
        return self._clock[1] + passed


def _moment(printed: bytes) -> datetime | None:
    try:
        text = printed.decode("ascii")[:20]
        return datetime.strptime(f"2000{text}", "%Y%m%d %H:%M:%S.%f").replace(tzinfo=timezone.utc)
    except ValueError:
        return None


def _compile(compile_id: CompileId, attempts: dict[int, _OpenAttempt]) -> LoggedCompile:
    last = max(attempts)
    return LoggedCompile(
        compile_id,
        tuple(attempts[number].frozen(is_last=number == last) for number in sorted(attempts)),
    )


def _stack_size(stack: LogStack) -> int:
    return sum(150 + len(frame.text or "") for frame in stack)


@dataclass(slots=True)
class ParsedHead:
    """The head of a record: its prefix, and its JSON unless it is an event of the timeline."""

    process: int | None
    time: bytes
    is_event: bool
    head: dict[str, Any]
    ids: bytes
    """What an event's head has after its kind."""


def parse_head(raw: RawRecord) -> ParsedHead:
    """The head of a record. Raises BadRecordError."""
    line = raw.head
    prefix = _GLOG.match(line)
    if prefix is not None and prefix["event"] and line.endswith(b"}"):
        return ParsedHead(
            int(prefix["process"]), prefix["time"], is_event=True, head={}, ids=line[prefix.end() :]
        )
    start = line.find(b"{") if prefix is None else prefix.end() - len(prefix["event"] or b"")
    if start < 0 or line[start : start + 1] != b"{":
        raise BadRecordError(
            f"the line is longer than {MAX_HEAD} bytes" if not line else "no JSON object on the line"
        )
    process = None if prefix is None else int(prefix["process"])
    time = b"" if prefix is None else prefix["time"]
    if line.startswith(b'{"describe_', start) and line.endswith(b"}"):
        kind = line[start + 2 : line.index(b'"', start + 2)]
        return ParsedHead(process, time, is_event=False, head={kind.decode("ascii", "replace"): {}}, ids=b"")
    head = json.loads(line[start:].decode("utf-8", "replace"))
    if not isinstance(head, dict):
        raise BadRecordError("the head is not an object")
    return ParsedHead(process, time, is_event=False, head=head, ids=b"")


def _kind_of(head: dict[str, Any]) -> tuple[str, Any]:
    for key, value in head.items():
        if key in _ENVELOPE:
            continue
        if key in {"artifact", "graph_dump"} and isinstance(value, dict) and "name" in value:
            return str(value["name"]), value
        return key, value
    raise BadRecordError("the head names no kind")


def _compile_id(head: dict[str, Any]) -> CompileId | None:
    frame, count = facts.integer(head.get("frame_id")), facts.integer(head.get("frame_compile_id"))
    autograd = facts.integer(head.get("compiled_autograd_id"))
    if autograd is None and (frame is None or count is None):
        return None
    return CompileId(frame, count, autograd)


@functools.lru_cache(maxsize=1024)
def _event_name(quoted: bytes) -> str:
    return str(json.loads(quoted.decode("utf-8", "replace")))


@functools.lru_cache(maxsize=1024)
def _id_of_event(frame: bytes | None, count: bytes | None, autograd: bytes | None) -> CompileId | None:
    numbers = [None if part is None else int(part) for part in (frame, count, autograd)]
    return CompileId(*numbers) if any(number is not None for number in numbers) else None


def _event_compile(ids: bytes, payload: bytes) -> CompileId | None:
    """The compile of an event: the head's, or its own field where the head has none, as while a backward compiles."""
    compile_id = _id_of_head(ids.partition(b', "has_payload"')[0])
    if compile_id is not None:
        return compile_id
    match = _EVENT_COMPILE.search(payload, 0, 4_000)
    return None if match is None else _id_of_event(match[2], match[3], match[1])


@functools.lru_cache(maxsize=1024)
def _id_of_head(ids: bytes) -> CompileId | None:
    try:
        return _compile_id(json.loads(b"{" + ids.removesuffix(b"}") + b"}"))
    except ValueError:
        return None


class FileAssembly:
    """The processes of one log: more than one if logs were joined, or if processes wrote to one file."""

    def __init__(self, file: str, rank: int | None, budget: MemoryBudget) -> None:
        """`rank` is that of the file's name."""
        self._file, self._rank, self._budget = file, rank, budget
        self._ended: list[ProcessAssembly] = []
        self._active: dict[int | None, ProcessAssembly] = {}
        self._last: ProcessAssembly | None = None

    def add(self, raw: RawRecord) -> None:
        """Take in a record."""
        if not raw.head.strip() and not raw.payload_length:
            return
        try:
            parsed = parse_head(raw)
        except (ValueError, RecursionError) as error:
            process = self._last or self._of(None)
            if raw.is_ended:
                process.skip(raw.offset, str(error)[:200])
            process.is_truncated = not raw.is_ended
            return
        process = self._of(parsed.process)
        if "str" in parsed.head and not process.accepts_string(parsed.head["str"]):
            self._ended.append(self._active.pop(parsed.process))
            process = self._of(parsed.process)
        process.add(raw, parsed)
        process.is_truncated = not raw.is_ended
        self._last = process

    def _of(self, number: int | None) -> ProcessAssembly:
        """The process of this number; a line without the usual prefix belongs to the last process."""
        if number is None and self._last is not None:
            return self._last
        first = self._active.get(None)
        if first is not None and not first.has_records:  # bad lines before the first record
            self._active[number] = self._active.pop(None)
        if number not in self._active:
            if len(self._active) >= _MAX_PROCESSES:
                return next(iter(self._active.values()))
            self._active[number] = ProcessAssembly(self._file, self._rank, self._budget)
        return self._active[number]

    @property
    def processes(self) -> Iterator[ProcessAssembly]:
        """In order of their start."""
        yield from self._ended
        yield from self._active.values()


_MAX_PROCESSES = 10_000
