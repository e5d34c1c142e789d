"""Builds the parts of a Report from a TORCH_TRACE log: what torch itself recorded, to compare findings with.

Invariant: facts that a log does not hold stay empty. It has no new values of failed guards, no origin of most guards,
and no source columns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fuselight.shared.report import (
    Break,
    Compile,
    Frame,
    Graph,
    GuardFailure,
    Location,
    Mismatch,
    NotCompiled,
    NotCompiledKind,
    Outcome,
    Recompile,
    Stack,
    Symbol,
    text_key,
)
from fuselight.shared.torch_texts import in_user_words
from fuselight_server.jobs.trace_log import model as log
from fuselight_server.jobs.trace_log.facts import read_printed_stack
from fuselight_server.jobs.trace_log.graphs import lines_of
from fuselight_server.jobs.trace_log.payloads import read_text

if TYPE_CHECKING:
    from fuselight_server.jobs.trace_log.model import ProcessLog

_REASON = re.compile(r"^(?P<compile_id>\[?[\w/]+\]?): (?P<text>.*)$", re.DOTALL)
_TORCH = re.compile(r"(?:^|[/\\])torch[/\\]")


@dataclass(frozen=True)
class TraceParts:
    """The facts of a log, as fields of a Report."""

    frames: tuple[Frame, ...]
    compiles: tuple[Compile, ...]
    breaks: tuple[Break, ...]
    recompiles: tuple[Recompile, ...]
    not_compiled: tuple[NotCompiled, ...]
    texts: dict[str, str]


def read_parts(process: ProcessLog) -> TraceParts:
    """The parts of what one process recorded."""
    frames: dict[Frame, int] = {}
    texts: dict[str, str] = {}
    out: list[Compile] = []
    recompiles: list[Recompile] = []
    refused: list[NotCompiled] = []
    known: dict[tuple[int | None, int | None], Frame] = {}
    for compiled in process.compiles:
        key = (compiled.id.autograd, compiled.id.frame)
        frame = _frame(compiled) or known.get(key)
        if frame is None:
            continue
        known.setdefault(key, frame)
        limit = _limit(compiled, frame)
        if compiled.recompile_reasons is not None:
            recompiles.append(_recompile(compiled, frame, limited=limit is not None))
        if limit is not None:
            refused.append(limit)
            continue
        out.append(_compile(compiled, frames.setdefault(frame, len(frames)), texts))
    return TraceParts(
        frames=tuple(frames),
        compiles=tuple(out),
        breaks=tuple(_break(compiled, item) for compiled in process.compiles for item in compiled.breaks),
        recompiles=tuple(recompiles),
        not_compiled=tuple(refused),
        texts=texts,
    )


def _frame(compiled: log.LoggedCompile) -> Frame | None:
    metrics, location = compiled.metrics, compiled.location
    if metrics is not None and metrics.path is not None and metrics.line is not None:
        location = Location(metrics.path, metrics.line, function=metrics.function)
    if location is None:
        return None
    return Frame(location.function or "", location, compiled.last.resumed_at)


def _compile(compiled: log.LoggedCompile, frame: int, texts: dict[str, str]) -> Compile:
    metrics, guards = compiled.metrics, compiled.last.guards
    graph = None
    printed = [item for item in compiled.last.graphs if item.kind is log.GraphKind.DYNAMO]
    if printed:
        content = read_text(printed[-1].payload)
        text = text_key(content)
        texts.setdefault(text, content)
        operators = metrics.operators if metrics is not None and metrics.operators is not None else None
        graph = Graph(operators if operators is not None else len(tuple(lines_of(content))), text)
    failed = metrics is not None and metrics.fail_type is not None
    outcome = Outcome.COMPILED if graph is not None else Outcome.EMPTY
    if failed:
        outcome = (
            Outcome.SKIPPED if metrics is not None and metrics.fail_type == "Unsupported" else Outcome.FAILED
        )
    guard_count = metrics.guards if metrics is not None else None
    fixed = {item.symbol: item for item in reversed(compiled.specializations)}
    return Compile(
        id=str(compiled.id),
        frame=frame,
        outcome=outcome,
        graph=None if failed else graph,
        guard_count=guard_count if guard_count is not None or guards is None else guards.count,
        guard_us=None if guards is None else guards.latency_us,
        symbols=tuple(_symbol(symbol, fixed.get(symbol.name)) for symbol in compiled.symbols),
        seconds=None if metrics is None else metrics.seconds,
        restarts=() if metrics is None else tuple(item.split("\n", 1)[0] for item in metrics.restarts),
        caller=_shown(compiled.stack[:-1]),
    )


def _symbol(created: log.LoggedSymbol, fixed: log.Specialization | None) -> Symbol:
    return Symbol(
        name=created.name,
        source=in_user_words(created.source or ""),
        hint=created.hint or "",
        range=(created.range or "").replace("int_oo", "inf"),
        specialized_to=None if fixed is None else fixed.value,
        reason=None if fixed is None else fixed.reason,
        stack=() if fixed is None else tuple(place.location for place in fixed.stack),
    )


def _break(compiled: log.LoggedCompile, graph_break: log.GraphBreak) -> Break:
    cause = graph_break.chain[0]
    metrics, location = compiled.metrics, graph_break.location
    stack = tuple(place.location for place in graph_break.stack)
    return Break(
        compile_id=str(compiled.id),
        ids=tuple(link.gb_id for link in graph_break.chain),
        types=tuple(link.title for link in graph_break.chain),
        stack=(*_shown(graph_break.stack[:-1]), location) if stack[-1:] == (location,) else (location,),
        reason=cause.title,
        explanation=cause.explanation,
        hints=cause.hints,
        context=cause.context,
        frame_function=None if metrics is None else metrics.function,
        frame_line=None if metrics is None else metrics.line,
        frame_skipped=metrics is not None and metrics.fail_type == "Unsupported",
    )


def _recompile(compiled: log.LoggedCompile, frame: Frame, *, limited: bool) -> Recompile:
    entries = []
    reasons = compiled.recompile_reasons or ()
    for reason in reasons:
        match = _REASON.match(reason)
        text = match["text"] if match else reason
        code = text.partition("  #")[0].partition("\nUser stack trace:")[0].strip()
        born = tuple(place.location for place in read_printed_stack(text))
        failure = GuardFailure("", "", code, in_user_words(code), born=born)
        entries.append(Mismatch(match["compile_id"] if match else "?", (failure,)))
    return Recompile(
        function=frame.function,
        location=frame.location,
        entries=tuple(entries),
        compile_id=None if limited else str(compiled.id),
        caller=_shown(compiled.stack[:-1]),
        reasons=reasons,
    )


def _limit(compiled: log.LoggedCompile, frame: Frame) -> NotCompiled | None:
    """A frame at its limit has reasons to recompile, but no later trace. The log does not name the limit."""
    if compiled.state is not log.AttemptState.REFUSED:
        return None
    reason = "a recompile limit is reached: calls that no cache entry fits run in eager"
    return NotCompiled(NotCompiledKind.RECOMPILE_LIMIT, frame.function, frame.location, reason)


def _shown(stack: log.LogStack) -> Stack:
    return tuple(place.location for place in stack if not _TORCH.search(place.path))
