"""Builds the parts of a Report from the events of a TORCH_TRACE log.

Invariant: facts that a log does not hold stay empty. It has no new values of failed guards, no origin of most guards,
and no source columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

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
from tests.support.torch_trace import events
from tests.support.torch_trace.events import TraceEvent

_RESUME = re.compile(r"torch_dynamo_resume_in_(?P<name>.+)_at_(?P<line>\d+)$")
_CALL = re.compile(r"^\s+(?:[\w, :\[\]\"'().]+ = )?[\w.]+\(.*|^\s+\w+(?:: \"[^\"]*\")? = .+", re.MULTILINE)
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


@dataclass
class _Compile:
    """The facts of one compile that were read up to now."""

    stack: Stack = ()
    graph: str | None = None
    guards: events.GuardsBuilt | None = None
    symbols: dict[str, events.SymbolMade] = field(default_factory=dict)
    fixed: dict[str, events.SymbolFixed] = field(default_factory=dict)
    reasons: tuple[str, ...] | None = None
    metrics: events.CompileMetrics | None = None


def read_parts(stream: Iterable[TraceEvent]) -> TraceParts:
    """The parts of one log."""
    compiles: dict[str, _Compile] = {}
    broke: list[tuple[str, events.GraphBroke]] = []
    for event in stream:
        key = event.compile_id or "?"
        one = compiles.setdefault(key, _Compile())
        fact = event.fact
        if isinstance(fact, events.FrameStarted):
            one.stack = fact.stack
        elif isinstance(fact, events.GraphBroke):
            broke.append((key, fact))
        elif isinstance(fact, events.Recompiled):
            one.reasons = fact.reasons
        elif isinstance(fact, events.GraphMade):
            one.graph = fact.text
        elif isinstance(fact, events.GuardsBuilt):
            one.guards = fact
        elif isinstance(fact, events.SymbolMade):
            one.symbols[fact.symbol] = fact
        elif isinstance(fact, events.SymbolFixed):
            one.fixed.setdefault(fact.symbol, fact)
        elif isinstance(fact, events.CompileMetrics):
            one.metrics = fact
    return _assemble(compiles, broke)


def _assemble(compiles: dict[str, _Compile], broke: list[tuple[str, events.GraphBroke]]) -> TraceParts:
    frames: dict[Frame, int] = {}
    texts: dict[str, str] = {}
    out: list[Compile] = []
    recompiles: list[Recompile] = []
    refused: list[NotCompiled] = []
    known: dict[str, Frame] = {}
    for key, one in compiles.items():
        frame = _frame(one) or known.get(key.rpartition("/")[0])
        if frame is None:
            continue
        known.setdefault(key.rpartition("/")[0], frame)
        limit = _limit(one, frame)
        if one.reasons is not None:
            recompiles.append(_recompile(key, one, frame, limited=limit is not None))
        if limit is not None:
            refused.append(limit)
            continue
        out.append(_compile(key, one, frames.setdefault(frame, len(frames)), texts))
    return TraceParts(
        frames=tuple(frames),
        compiles=tuple(out),
        breaks=tuple(_break(key, fact, compiles.get(key)) for key, fact in broke),
        recompiles=tuple(recompiles),
        not_compiled=tuple(refused),
        texts=texts,
    )


def _frame(one: _Compile) -> Frame | None:
    metrics = one.metrics
    if metrics is not None and metrics.path is not None and metrics.line is not None:
        raw, path, line = metrics.function or "", metrics.path, metrics.line
    elif one.stack:
        raw, path, line = one.stack[-1].function or "", one.stack[-1].path, one.stack[-1].line
    else:
        return None
    found = _RESUME.match(raw)
    name = found["name"] if found else raw
    return Frame(name, Location(path, line, function=name), int(found["line"]) if found else None)


def _compile(key: str, one: _Compile, frame: int, texts: dict[str, str]) -> Compile:
    metrics = one.metrics
    graph = None
    if one.graph is not None:
        text = text_key(one.graph)
        texts.setdefault(text, one.graph)
        operators = metrics.operators if metrics is not None and metrics.operators is not None else None
        graph = Graph(operators if operators is not None else len(_CALL.findall(one.graph)), text)
    failed = metrics is not None and metrics.fail_type is not None
    outcome = Outcome.COMPILED if graph is not None else Outcome.EMPTY
    if failed:
        outcome = (
            Outcome.SKIPPED if metrics is not None and metrics.fail_type == "Unsupported" else Outcome.FAILED
        )
    guard_count = metrics.guards if metrics is not None else None
    return Compile(
        id=key,
        frame=frame,
        outcome=outcome,
        graph=None if failed else graph,
        guard_count=guard_count if guard_count is not None or one.guards is None else one.guards.count,
        guard_us=None if one.guards is None else one.guards.latency_us,
        symbols=tuple(_symbol(made, one.fixed.get(made.symbol)) for made in one.symbols.values()),
        seconds=None if metrics is None else metrics.seconds,
        restarts=() if metrics is None else tuple(item.split("\n", 1)[0] for item in metrics.restarts),
        caller=_shown(one.stack[:-1]),
    )


def _symbol(made: events.SymbolMade, fixed: events.SymbolFixed | None) -> Symbol:
    return Symbol(
        name=made.symbol,
        source=in_user_words(made.source),
        hint=made.value,
        range=made.range.replace("int_oo", "inf"),
        specialized_to=None if fixed is None else fixed.value,
        reason=None if fixed is None else fixed.reason,
        stack=() if fixed is None else fixed.stack,
    )


def _break(key: str, fact: events.GraphBroke, one: _Compile | None) -> Break:
    cause = fact.chain[0]
    metrics = None if one is None else one.metrics
    found = _RESUME.match(metrics.function or "") if metrics is not None else None
    return Break(
        compile_id=key,
        ids=tuple(link.gb_id for link in fact.chain),
        types=tuple(link.title for link in fact.chain),
        stack=(*_shown(fact.stack[:-1]), fact.where) if fact.stack[-1:] == (fact.where,) else (fact.where,),
        reason=cause.title,
        explanation=cause.explanation,
        hints=cause.hints,
        context=cause.context,
        frame_function=None if metrics is None else (found["name"] if found else metrics.function),
        frame_line=None if metrics is None else metrics.line,
        frame_skipped=metrics is not None and metrics.fail_type == "Unsupported",
    )


def _recompile(key: str, one: _Compile, frame: Frame, *, limited: bool) -> Recompile:
    entries = []
    for reason in one.reasons or ():
        found = _REASON.match(reason)
        text = found["text"] if found else reason
        code = text.partition("  #")[0].partition("\nUser stack trace:")[0].strip()
        failure = GuardFailure("", "", code, in_user_words(code), born=events.read_printed_stack(text))
        entries.append(Mismatch(found["compile_id"] if found else "?", (failure,)))
    return Recompile(
        function=frame.function,
        location=frame.location,
        entries=tuple(entries),
        compile_id=None if limited else key,
        caller=_shown(one.stack[:-1]),
        reasons=one.reasons or (),
    )


def _limit(one: _Compile, frame: Frame) -> NotCompiled | None:
    """A frame at its limit has reasons to recompile, but no later trace. The log does not name the limit."""
    if one.reasons is None or one.stack or one.graph is not None:
        return None
    reason = "a recompile limit is reached: calls that no cache entry fits run in eager"
    return NotCompiled(NotCompiledKind.RECOMPILE_LIMIT, frame.function, frame.location, reason)


def _shown(stack: Stack) -> Stack:
    return tuple(place for place in stack if not _TORCH.search(place.path))
