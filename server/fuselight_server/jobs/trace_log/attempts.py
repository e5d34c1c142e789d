"""The compiles of a process while their records are read.

Invariant: a compile restarts as often as Dynamo does; each attempt has facts of its own, and the last one decides.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fuselight_server.jobs.trace_log import facts
from fuselight_server.jobs.trace_log.budget import ProcessBudget
from fuselight_server.jobs.trace_log.heads import compile_id_of
from fuselight_server.jobs.trace_log.model import (
    AttemptState,
    CacheEvent,
    CompileAttempt,
    CompileError,
    CompileId,
    CompileMetrics,
    GraphBreak,
    GuardCount,
    LoggedCompile,
    LoggedGraph,
    LoggedSymbol,
    LogStack,
    OutputCode,
    Specialization,
    SymbolGuard,
)

_SIZE = 1_200
"""Bytes, as estimated, of an attempt without its facts."""


@dataclass(slots=True)
class OpenAttempt:
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
        """The attempt as it is known by now."""
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


class OpenCompiles:
    """The compiles of one process, read up to now."""

    def __init__(self, budget: ProcessBudget) -> None:
        """`budget` decides which attempts are kept."""
        self._budget = budget
        self._attempts: dict[CompileId, dict[int, OpenAttempt]] = {}
        self._finished: list[CompileId] = []

    def attempt(self, fields: Mapping[str, Any]) -> OpenAttempt | None:
        """The attempt that the head of a record names, the last one of its compile if the head has no number.

        None if the head names no compile, or if the attempt is not kept.
        """
        compile_id = compile_id_of(fields)
        if compile_id is None:
            return None
        attempts = self._attempts.get(compile_id)
        number = facts.integer(fields.get("attempt"))
        if number is None:
            number = max(attempts) if attempts else 0
        if attempts is not None and number in attempts:
            return attempts[number]
        if not self._budget.keeps("compile attempts", _SIZE):
            return None
        attempt = OpenAttempt(compile_id, number)
        self._attempts.setdefault(compile_id, {})[number] = attempt
        return attempt

    def end_compile(self, compile_id: CompileId) -> None:
        """Note that a compile has ended."""
        self._finished.append(compile_id)

    def take_finished(self) -> tuple[LoggedCompile, ...]:
        """The compiles that ended since the last call."""
        ids, self._finished = dict.fromkeys(self._finished), []
        return tuple(self._frozen(compile_id) for compile_id in ids)

    def known(self) -> tuple[LoggedCompile, ...]:
        """All compiles, in order of their first record."""
        return tuple(map(self._frozen, self._attempts))

    def _frozen(self, compile_id: CompileId) -> LoggedCompile:
        attempts = self._attempts[compile_id]
        last = max(attempts)
        return LoggedCompile(
            compile_id,
            tuple(attempts[number].frozen(is_last=number == last) for number in sorted(attempts)),
        )
