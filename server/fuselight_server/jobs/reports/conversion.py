"""What a process of a job recorded → the Report that a run yields.

Invariant: a fact that a log does not have is missing, and `problems` of the Report name it. Logs have no values, no
calls, no columns, and no origins of most guards.
"""

from __future__ import annotations

import contextlib
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fuselight.shared.report import (
    Break,
    Compile,
    Environment,
    Failure,
    Frame,
    GeneratedGraph,
    Graph,
    Inputs,
    Location,
    NotCompiled,
    NotCompiledKind,
    Outcome,
    Problem,
    Recompile,
    Report,
    Rung,
    Stack,
    Symbol,
    TargetRef,
    Tier,
    Versions,
    add_break,
)
from fuselight.shared.report.failure import LONGEST
from fuselight.shared.torch_texts import in_user_words, is_default
from fuselight.shared.version import release
from fuselight_server.jobs.reports.errors import (
    UNSUPPORTED,
    LoggedError,
    failure_verdict,
    is_failed,
    marked_sources,
    read_backward_errors,
    read_error,
    read_limit,
)
from fuselight_server.jobs.reports.evidence import read_evidence
from fuselight_server.jobs.reports.frames import JobFrames
from fuselight_server.jobs.reports.guard_reasons import GuardOrigins, read_mismatches
from fuselight_server.jobs.reports.kernels import read_generated
from fuselight_server.jobs.reports.mapping import JobFiles, LocalSources, is_of_job, map_files
from fuselight_server.jobs.reports.texts import LogTexts
from fuselight_server.jobs.trace_log import model as log
from fuselight_server.jobs.trace_log.facts import read_printed_stack
from fuselight_server.jobs.trace_log.files import LogError
from fuselight_server.jobs.trace_log.model import AttemptState, GraphKind, ProcessLog
from fuselight_server.jobs.trace_log.payloads import read_metrics

_UNKNOWN = "unknown"
_RECORDS_SKIPS = (2, 11)
"""The release since which a break that skips its frame has a record."""


@dataclass
class _Facts:
    """The parts of a Report, in order of their records."""

    compiles: list[Compile] = field(default_factory=list)
    breaks: list[Break] = field(default_factory=list)
    recompiles: list[Recompile] = field(default_factory=list)
    not_compiled: list[NotCompiled] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    generated: list[GeneratedGraph] = field(default_factory=list)
    keys: dict[str, None] = field(default_factory=dict)
    """Texts that the Report refers to."""
    has_unclear_skips: bool = False
    """Whether a frame may have been skipped, or a call with fullgraph=True have raised."""


def read_report(process: ProcessLog, files: JobFiles, texts: LogTexts) -> Report:
    """The Report of a process. `texts` has the graphs that were read."""
    return _Conversion(process, files, texts).make_report()


def read_unmapped_report(process: ProcessLog) -> Report:
    """The Report of a process with the paths of the job."""
    texts = LogTexts()
    texts.read(process)
    return read_report(process, map_files(read_evidence([process], texts), LocalSources(()), {}), texts)


class _Conversion:
    def __init__(self, process: ProcessLog, files: JobFiles, texts: LogTexts) -> None:
        self._process = process
        self._files = files
        self._texts = texts
        self._facts = _Facts()
        self._frames = JobFrames(files)
        self._paths = frozenset(files.evidence)

    def make_report(self) -> Report:
        for compiled in self._process.compiles:
            self._add(compiled)
        facts, target = self._facts, self._target()
        facts.not_compiled = without_wrappers(facts.not_compiled, frozenset(self._files.local.values()))
        seconds = sum(compiled.seconds or 0.0 for compiled in facts.compiles)
        return Report(
            versions=self._versions(),
            target=target,
            tier=Tier.KERNELS if facts.generated else Tier.CAPTURE,
            generation=0,
            inputs=Inputs(Rung.TRACE, target.path),
            environment=Environment(variables=dict(self._process.environment)),
            frames=self._frames.compiled(),
            compiles=tuple(facts.compiles),
            breaks=tuple(facts.breaks),
            recompiles=tuple(facts.recompiles),
            not_compiled=tuple(facts.not_compiled),
            failures=tuple(facts.failures),
            generated=tuple(facts.generated),
            problems=self._problems(),
            phases={"compile": round(seconds, 3)} if seconds else {},
            roots=self._files.roots(),
            texts={key: self._texts.texts[key] for key in facts.keys},
        )

    def _versions(self) -> Versions:
        """The versions that torch's metrics name."""
        metrics = next((item.metrics for item in self._process.compiles if item.metrics is not None), None)
        named: Mapping[str, Any] = {}
        if metrics is not None:
            with contextlib.suppress(LogError):
                named = read_metrics(metrics)
        python, triton = (str(named.get(name) or "") for name in ("python_version", "triton_version"))
        return Versions(
            python=python.partition(" ")[0] or _UNKNOWN,
            torch=self._process.torch_version,
            triton=triton or None,
            fuselight=_UNKNOWN,
            platform=_UNKNOWN,
            executable=_UNKNOWN,
        )

    def _target(self) -> TargetRef:
        """The program: the outermost frame of the job's own code, its module if it is on a stack."""
        frames = [frame for compiled in self._process.compiles for frame in compiled.stack[:-1]]
        own = [frame for frame in frames if is_of_job(frame.path) or frame.path in self._files.local]
        program = next((frame for frame in own if frame.function == "<module>"), own[0] if own else None)
        path = program.path if program is not None else self._compiled_path()
        return TargetRef(self._files.path(path), "", 1, "main")

    def _compiled_path(self) -> str:
        places = (compiled.location for compiled in self._process.compiles)
        return next((place.path for place in places if place is not None), self._process.file)

    def _add(self, compiled: log.LoggedCompile) -> None:
        frame = self._frames.frame(compiled)
        if frame is None:
            return
        facts = self._facts
        limit = read_limit(compiled)
        if compiled.recompile_reasons is not None:
            facts.recompiles.append(self._recompile(compiled, frame, is_limited=limit is not None))
        if limit is not None:
            caller = self._frames.caller(compiled)
            facts.not_compiled.append(
                NotCompiled(
                    limit.kind, frame.function, frame.location, limit.reason, gb_id=limit.gb_id, caller=caller
                )
            )
            return
        facts.compiles.append(self._compile(compiled, self._frames.index(frame)))
        self._add_generated(compiled, frame)
        for item in compiled.breaks:
            self._add_break(compiled, frame, item)
        if is_failed(compiled):
            self._add_failed(compiled, frame)
        for error in read_backward_errors(compiled):
            failure = self._failure(compiled, error, (frame.location,))
            facts.failures.append(replace(failure, phase="backward", is_caught=False))

    def _compile(self, compiled: log.LoggedCompile, frame: int) -> Compile:
        metrics, guards = compiled.metrics, compiled.last.guards
        graph = self._graph(compiled)
        outcome = Outcome.COMPILED if graph is not None else Outcome.EMPTY
        is_failed = compiled.state is AttemptState.FAILED
        if is_failed or (metrics is not None and metrics.fail_type is not None):
            is_skipped = metrics is not None and metrics.fail_type == UNSUPPORTED
            outcome, graph = Outcome.SKIPPED if is_skipped else Outcome.FAILED, None
        fixed = {item.symbol: item for item in reversed(compiled.specializations)}
        marked = marked_sources(compiled)
        guard_count = metrics.guards if metrics is not None else None
        return Compile(
            id=str(compiled.id),
            frame=frame,
            outcome=outcome,
            graph=graph,
            guard_count=guard_count if guard_count is not None or guards is None else guards.count,
            guard_us=None if guards is None else guards.latency_us,
            symbols=tuple(
                replace(symbol, marked=symbol.source in marked)
                for symbol in (self._symbol(symbol, fixed.get(symbol.name)) for symbol in compiled.symbols)
            ),
            seconds=compiled.seconds,
            restarts=() if metrics is None else tuple(item.split("\n", 1)[0] for item in metrics.restarts),
            caller=self._frames.caller(compiled),
        )

    def _graph(self, compiled: log.LoggedCompile) -> Graph | None:
        printed = [item for item in compiled.last.graphs if item.kind is GraphKind.DYNAMO]
        if not printed:
            return None
        metrics, payload = compiled.metrics, printed[-1].payload
        key, nodes = self._texts.key(payload), self._texts.lines(payload)
        operators = metrics.operators if metrics is not None else None
        if key is not None:
            self._facts.keys[key] = None
        return Graph(
            operators=operators if operators is not None else len(nodes),
            text_key=key,
            lines=tuple(
                ()
                if node.path is None or node.line is None
                else (self._files.location(Location(node.path, node.line, function=node.function)),)
                for node in nodes
            ),
            targets=tuple(node.operator for node in nodes),
        )

    def _symbol(self, created: log.LoggedSymbol, fixed: log.Specialization | None) -> Symbol:
        return Symbol(
            name=created.name,
            source=in_user_words(created.source or ""),
            hint=created.hint,
            range=None if created.range is None else created.range.replace("int_oo", "inf"),
            specialized_to=None if fixed is None else fixed.value,
            reason=None if fixed is None else fixed.reason,
            stack=() if fixed is None else self._frames.stack(frame.location for frame in fixed.stack),
            is_default=is_default(created.source or ""),
        )

    def _add_break(self, compiled: log.LoggedCompile, frame: Frame, logged: log.GraphBreak) -> None:
        graph_break = self._break(compiled, frame, logged)
        add_break(self._facts.breaks, graph_break)
        if graph_break.rest_from is not None:
            self._facts.not_compiled.append(
                NotCompiled(
                    NotCompiledKind.SKIPPED,
                    frame.function,
                    frame.location,
                    graph_break.reason,
                    stack=graph_break.stack,
                    gb_id=graph_break.ids[0],
                    caller=self._frames.caller(compiled),
                    rest_from=graph_break.rest_from,
                )
            )

    def _break(self, compiled: log.LoggedCompile, frame: Frame, graph_break: log.GraphBreak) -> Break:
        cause = graph_break.chain[0]
        metrics = compiled.metrics
        above, traced = self._frames.of_break(compiled, frame, graph_break)
        return Break(
            compile_id=str(compiled.id),
            ids=tuple(link.gb_id for link in graph_break.chain),
            types=tuple(link.title for link in graph_break.chain),
            stack=traced,
            above=above,
            reason=cause.title,
            explanation=cause.explanation,
            hints=cause.hints,
            context=cause.context,
            frame_function=frame.function,
            frame_line=self._frames.first_line(frame),
            frame_skipped=metrics is not None and metrics.fail_type == UNSUPPORTED,
            rest_from=traced[0].line if graph_break.ends_function else None,
        )

    def _recompile(self, compiled: log.LoggedCompile, frame: Frame, *, is_limited: bool) -> Recompile:
        reasons = compiled.recompile_reasons or ()
        origins = GuardOrigins(compiled.symbols, self._paths, self._frames.stack)
        return Recompile(
            function=frame.function,
            location=frame.location,
            entries=read_mismatches(reasons, origins),
            compile_id=None if is_limited else str(compiled.id),
            caller=self._frames.caller(compiled),
            reasons=reasons,
        )

    def _add_generated(self, compiled: log.LoggedCompile, frame: Frame) -> None:
        facts = self._facts
        number = len({graph.graph for graph in facts.generated})
        for graph in read_generated(compiled, number, frame, self._files, self._texts):
            facts.generated.append(graph)
            kernels = [kernel.text_key for kernel in graph.kernels]
            keys = (graph.text_key, graph.aten_key, graph.joint_key, *kernels)
            facts.keys.update(dict.fromkeys(key for key in keys if key is not None))

    def _add_failed(self, compiled: log.LoggedCompile, frame: Frame) -> None:
        """A compile that failed: torch ran the frame in eager mode, or raised the error to the caller."""
        error = read_error(compiled)
        printed = read_printed_stack(error.user_code)
        stack = self._frames.stack(item.location for item in printed)
        if error.exception == UNSUPPORTED and (compiled.breaks or not error.text or self._may_be_skipped()):
            kind = NotCompiledKind.SKIPPED
            if printed and not compiled.breaks:
                graph_break = log.GraphBreak(printed[-1].location, error.chain, printed, error.payload)
                self._add_break(compiled, frame, graph_break)
        elif self._suppresses_errors(compiled):
            kind = NotCompiledKind.COMPILER_ERROR
        else:
            self._facts.failures.append(self._failure(compiled, error, stack or (frame.location,)))
            return
        self._facts.not_compiled.append(
            NotCompiled(
                kind,
                frame.function,
                frame.location,
                _reason_of(error),
                stack=stack,
                gb_id=error.reason.gb_id,
                caller=self._frames.caller(compiled),
            )
        )

    def _may_be_skipped(self) -> bool:
        """Whether a break that ended a compile and has no record may have skipped the frame: torch before 2.11.

        A call with fullgraph=True, which raises, leaves the same log, and is less frequent.
        """
        version = self._process.torch_version
        is_known = version is not None and release(version) >= _RECORDS_SKIPS
        self._facts.has_unclear_skips |= not is_known
        return not is_known

    def _failure(self, compiled: log.LoggedCompile, error: LoggedError, stack: Stack) -> Failure:
        """An error that torch raised; the program has caught it if it compiled more."""
        verdict = failure_verdict(error)
        return Failure(
            culprit=verdict.culprit,
            kind=verdict.kind,
            message=error.message,
            next_step=verdict.next_step,
            exception=error.exception,
            stack=(*self._frames.caller(compiled), *stack),
            traceback=error.text[-LONGEST:],
            gb_id=error.reason.gb_id,
            explanation=error.reason.explanation,
            hints=error.reason.hints,
            context=error.reason.context,
            is_caught=compiled is not self._process.compiles[-1],
        )

    def _suppresses_errors(self, compiled: log.LoggedCompile) -> bool:
        metrics = compiled.metrics
        if metrics is None:
            return False
        try:
            return read_metrics(metrics).get("config_suppress_errors") is True
        except LogError:
            return False

    def _problems(self) -> tuple[Problem, ...]:
        process = self._process
        problems = [Problem("trace", what, why) for what, why in NOT_LOGGED]
        if self._facts.has_unclear_skips:
            problems.append(Problem("trace", *_UNCLEAR_SKIPS))
        unread = self._texts.unread.get(process.file)
        if unread:
            problems.append(
                Problem(
                    "trace",
                    f"{unread:,} graphs and generated modules",
                    "the job has more than are kept in memory",
                )
            )
        return tuple(problems)


def _reason_of(error: LoggedError) -> str:
    """Why a compile failed that torch replaced by eager mode."""
    if error.machine is not None:
        return f"{error.machine.title}. {error.machine.next_step}"
    return error.reason.title or "the compile failed"


NOT_LOGGED = (
    ("the values of arguments and attributes", "a trace has the conditions that failed, not the new values"),
    ("the number of calls", "a trace has an entry for each compile, not for each call"),
    ("the waits and the times of kernels", "a trace has the time of compiles alone"),
    ("the columns of lines", "a trace has lines"),
    (
        "the lines on which most guards were created",
        "a trace names them for conditions on values and symbols alone",
    ),
)
"""What no trace has: the subject, and what it has instead."""
_UNCLEAR_SKIPS = (
    "whether a break that ended a compile was an error of `fullgraph=True`",
    "torch before 2.11 logs the same for a frame that it skipped",
)


def without_wrappers(rows: list[NotCompiled], own: Container[str]) -> list[NotCompiled]:
    """Leave out wrappers of installed packages that are not compiled for what is in the job's function in them.

    A trace does not say what a wrapper wraps; the function itself is not compiled for the same line.
    """
    of_own = [row for row in rows if row.location.path in own and row.stack]
    return [
        row
        for row in rows
        if row.location.path in own
        or not any(row.gb_id == other.gb_id and _ends_with(row.stack, other.stack) for other in of_own)
    ]


def _ends_with(stack: Stack, end: Stack) -> bool:
    return len(stack) > len(end) and stack[-len(end) :] == end
