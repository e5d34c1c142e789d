"""Puts the records of one process together.

Invariant: no record raises. A bad one is counted with its position, an unknown one by its name, and what is kept has a
bound: the `MemoryBudget` that all processes of a job share.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from fuselight.shared import environment_record, import_times
from fuselight.shared.foreign_data import parse_json
from fuselight.shared.report import Imports
from fuselight.shared.report.visible import one_line
from fuselight_server.jobs.trace_log import facts
from fuselight_server.jobs.trace_log.attempts import OpenAttempt, OpenCompiles
from fuselight_server.jobs.trace_log.budget import MemoryBudget, ProcessBudget
from fuselight_server.jobs.trace_log.facts import BadRecordError, Strings
from fuselight_server.jobs.trace_log.heads import RecordHead, compile_id_of, kind_of, parse_head
from fuselight_server.jobs.trace_log.model import (
    CacheEvent,
    GraphKind,
    LoggedGraph,
    LogStack,
    OutputCode,
    Payload,
    ProcessLog,
)
from fuselight_server.jobs.trace_log.payloads import text_of
from fuselight_server.jobs.trace_log.records import MAX_PAYLOAD, RawRecord
from fuselight_server.jobs.trace_log.timeline import Timeline

_MAX_KINDS = 1_000
_MAX_PROCESSES = 10_000
_BAD_KEPT = 100
_PROGRAM_START = 16 << 10
_ASSIGNED = re.compile(r"^os\.environ\['(\w+)'\] = '(.*)'$", re.MULTILINE)
"""How a runnable program, as Inductor prints it for each graph, sets a variable of the job."""
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
    import_times.RECORD: "_add_imports",
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


@dataclass(slots=True)
class RecordEntry:
    """A record with its parsed head."""

    name: str
    value: Any
    raw: RawRecord
    where: Payload
    fields: dict[str, Any]
    """Of its head."""

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
        self._budget = ProcessBudget(budget)
        self._timeline = Timeline(self._budget)
        self._strings = Strings()
        self.compiles = OpenCompiles(self._budget)
        self._loose_events: list[CacheEvent] = []
        self._version: str | None = None
        self._environment: dict[str, str] = {}
        self._imports: Imports | None = None
        self._kinds: collections.Counter[str] = collections.Counter()
        self._unknown: collections.Counter[str] = collections.Counter()
        self._records = self._bad = 0
        self._bad_lines: list[tuple[int, str]] = []
        self._first_time = self._last_time = b""
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

    def skip(self, offset: int, why: str) -> None:
        """Count a record that cannot be read."""
        self._bad += 1
        if len(self._bad_lines) < _BAD_KEPT:
            self._bad_lines.append((offset, why))

    def add_record(self, raw: RawRecord, head: RecordHead) -> None:
        """Take in a record."""
        self._records += 1
        self._process = head.process if self._process is None else self._process
        self._first_time = self._first_time or head.time
        self._last_time = head.time or self._last_time
        where = Payload(self._file, raw.payload_offset, raw.payload_length)
        try:
            if head.is_event:
                self._count("chromium_event")
                self._timeline.add_event(head, raw.payload)
            else:
                self._add(raw, head.fields, where)
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError, OverflowError) as error:
            if raw.is_ended:  # else the note of the cut log covers it
                self.skip(raw.offset, one_line(str(error)[:200]) or type(error).__name__)

    def _add(self, raw: RawRecord, fields: dict[str, Any], where: Payload) -> None:
        name, value = kind_of(fields)
        self._count(name)
        rank = facts.integer(fields.get("rank"))
        self._rank = self._rank if rank is None else rank
        entry = RecordEntry(name, value, raw, where, fields)
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

    def _required(self, entry: RecordEntry) -> OpenAttempt | None:
        """The attempt of a record that has one; None if it is not kept."""
        if compile_id_of(entry.fields) is None:
            raise BadRecordError(f"{entry.name} has no compile ID")
        return self.compiles.attempt(entry.fields)

    def _add_string(self, entry: RecordEntry) -> None:
        if self._budget.keeps("file names", len(str(entry.value))):
            self._strings.intern_name(entry.value)

    def _add_version(self, entry: RecordEntry) -> None:
        body = facts.mapping(parse_json(entry.text))
        self._version = one_line(str(body["pytorch_version"])[:100])

    def _add_start(self, entry: RecordEntry) -> None:
        frames = facts.mapping(entry.value).get("stack")
        stack = self._strings.stack(frames)
        attempt = self._required(entry)
        if attempt is not None and self._budget.keeps("stacks", _stack_size(stack)):
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
        if attempt is not None and self._budget.keeps("graph breaks", entry.raw.payload_length):
            attempt.breaks.append(graph_break)

    def _add_reasons(self, entry: RecordEntry) -> None:
        reasons = facts.read_recompile_reasons(entry.text)
        attempt = self._required(entry)
        if attempt is not None and self._budget.keeps("recompile reasons", sum(map(len, reasons))):
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
        attempt = self.compiles.attempt(entry.fields)
        if attempt is not None and self._budget.keeps("symbols", _stack_size(symbol.stack)):
            attempt.symbols[symbol.name] = symbol

    def _add_specialization(self, entry: RecordEntry) -> None:
        fixed = facts.read_specialization(entry.value, self._strings)
        attempt = self.compiles.attempt(entry.fields)
        if attempt is not None and self._budget.keeps("specializations", _stack_size(fixed.stack)):
            attempt.specializations.append(fixed)

    def _add_symbol_guard(self, entry: RecordEntry) -> None:
        guard = facts.read_symbol_guard(entry.value, self._strings)
        attempt = self.compiles.attempt(entry.fields)
        if attempt is not None and self._budget.keeps("guards on symbols", _stack_size(guard.stack)):
            attempt.symbol_guards.append(guard)

    def _add_graph(self, entry: RecordEntry) -> None:
        attempt = self.compiles.attempt(entry.fields)
        if attempt is not None and self._budget.keeps("graphs", 0):
            attempt.graphs.append(LoggedGraph(_GRAPHS[entry.name], entry.where))

    def _add_code(self, entry: RecordEntry) -> None:
        name = entry.value.get("filename") if isinstance(entry.value, dict) else None
        attempt = self.compiles.attempt(entry.fields)
        if attempt is not None and self._budget.keeps("generated code", 0):
            attempt.output_codes.append(
                OutputCode(None if name is None else one_line(str(name)), entry.where)
            )

    def _add_error(self, entry: RecordEntry) -> None:
        error = facts.read_error(entry.text, entry.where)
        attempt = self.compiles.attempt(entry.fields)
        if attempt is not None and self._budget.keeps("errors", len(error.summary)):
            attempt.errors.append(error)

    def _add_metrics(self, entry: RecordEntry) -> None:
        where = Payload(self._file, entry.raw.offset, len(entry.raw.head))
        metrics = facts.read_metrics(entry.value, where, is_backward=entry.name == "bwd_compilation_metrics")
        if self._version is None:  # torch 2.11 has no record of its own for it
            self._version = facts.version_in(entry.value)
        attempt = self._required(entry)
        if attempt is not None and self._budget.keeps("metrics", sum(map(len, metrics.restarts))):
            attempt.metrics.append(metrics)
            self.compiles.end_compile(attempt.id)

    def _add_cache_event(self, entry: RecordEntry) -> None:
        compile_id = compile_id_of(entry.fields)
        event = facts.read_cache_event(entry.name, entry.text, entry.where, compile_id)
        if not self._budget.keeps("cache events", len(event.reason or "")):
            return
        self._loose_events.append(event)
        attempt = self.compiles.attempt(entry.fields)
        if attempt is not None:
            attempt.cache_events.append(event)

    def _add_program(self, entry: RecordEntry) -> None:
        program = text_of(entry.raw.payload[:_PROGRAM_START])
        assigned = {match[1]: match[2] for match in _ASSIGNED.finditer(program)}
        for name, value in environment_record.allowed_variables(assigned).items():
            self._environment.setdefault(name, value)

    def _add_environment(self, entry: RecordEntry) -> None:
        self._environment |= environment_record.allowed_variables(facts.mapping(parse_json(entry.text)))

    def _add_imports(self, entry: RecordEntry) -> None:
        imports = facts.read_imports(entry.text)
        if self._budget.keeps("imports", entry.raw.payload_length):
            self._imports = imports

    def log(self, *, is_complete: bool) -> ProcessLog:
        """Everything that was read up to now."""
        return ProcessLog(
            file=self._file,
            process=self._process,
            rank=self._rank,
            torch_version=self._version,
            started=self._timeline.seconds(self._first_time),
            ended=self._timeline.seconds(self._last_time),
            is_truncated=self.is_truncated,
            is_complete=is_complete,
            compiles=self.compiles.known(),
            phases=self._timeline.phases(),
            cache_events=tuple(self._loose_events),
            environment=dict(self._environment),
            imports=self._imports,
            records=self._records,
            kinds=dict(self._kinds),
            unknown=dict(self._unknown),
            bad_records=self._bad,
            bad_lines=tuple(self._bad_lines),
            not_kept=dict(self._budget.not_kept),
        )


def _stack_size(stack: LogStack) -> int:
    return sum(150 + len(frame.text or "") for frame in stack)


class FileAssembly:
    """The processes of one log: more than one if logs were joined, or if processes wrote to one file."""

    def __init__(self, file: str, rank: int | None, budget: MemoryBudget) -> None:
        """`rank` is that of the file's name."""
        self._file, self._rank, self._budget = file, rank, budget
        self._ended: list[ProcessAssembly] = []
        self._active: dict[int | None, ProcessAssembly] = {}
        self._last: ProcessAssembly | None = None

    def add_record(self, raw: RawRecord) -> None:
        """Take in a record."""
        if not raw.head.strip() and not raw.payload_length:
            return
        try:
            head = parse_head(raw)
        except (ValueError, RecursionError) as error:
            process = self._last or self._of(None)
            if raw.is_ended:
                process.skip(raw.offset, one_line(str(error)[:200]))
            process.is_truncated = not raw.is_ended
            return
        process = self._of(head.process)
        if "str" in head.fields and not process.accepts_string(head.fields["str"]):
            self._ended.append(self._active.pop(head.process))
            process = self._of(head.process)
        process.add_record(raw, head)
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
