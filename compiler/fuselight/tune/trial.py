"""One configuration of a search: its process, the orders that it is given, and what is known of it.

Invariant: a process has at most one unanswered order. A time limit counts only while the process may run: not while it
is paused so that others can be timed.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from fuselight.measure.orders import Order
from fuselight.measure.pool import PooledConfiguration, RemoteConfiguration
from fuselight.shared.report import Failure, Skip, TuneCandidate, TuneOutcome
from fuselight.tune.schedule import Knobs

_OVERDUE = 0.001
"""Seconds to wait for an answer whose time limit has passed; 0 would be without limit."""
COMPILE_ORDERS = (Order.READY, Order.BUILD, Order.FIRST, Order.SETTLE)
"""The orders that compile a configuration: import the file, build the target, make the first call, and further ones
until nothing compiles."""


class SearchProcess(RemoteConfiguration, Protocol):
    """The process of a configuration that runs side by side with others."""

    def has_answer(self) -> bool:
        """Whether `answer` returns, or raises, without waiting."""
        ...

    def pause(self) -> None:
        """Stop the process and everything that it has started, so that others can be timed."""
        ...

    def resume(self) -> None:
        """Let a paused process continue."""
        ...


@dataclass(eq=False)
class Trial(PooledConfiguration[SearchProcess]):
    """One configuration in a search."""

    started_s: float
    limit: float
    """Seconds that it may take for everything until it can be timed; 0: no limit."""
    knobs: Knobs | None = None
    """The knobs that it changes from `default`; None if it is not made of knobs."""
    outcome: TuneOutcome | None = None
    """None while it may still win."""
    skipped: Skip | None = None
    is_eliminated: bool = False
    """Whether it left its last race early."""
    ready_s: float | None = None
    stage: int = 0
    gain: float | None = None
    """Speed-up over `default` in the last race that it took part in."""
    is_compared: bool = False
    """Whether its results were compared, or are being compared."""
    queue: deque[tuple[Order, Mapping[str, Any]]] = field(default_factory=deque)
    """Orders that follow the one that it works on."""
    _due: float = math.inf

    def __post_init__(self) -> None:
        super().__post_init__()
        self.limit_by(self.limit)

    @property
    def asked(self) -> Order | None:
        """The order that it works on; None if it waits for one."""
        return self.pending[0] if self.pending else None

    @property
    def is_compiling(self) -> bool:
        """Whether it needs the cores of a compile."""
        return self.is_alive and self.asked in COMPILE_ORDERS

    @property
    def is_idle(self) -> bool:
        """Whether it can be timed: it has made its first call and waits for an order."""
        return self.is_alive and self.ready_s is not None and not self.asked

    @property
    def is_verified(self) -> bool:
        """Whether its results were compared and nothing speaks against them."""
        return self.is_compared and not self.asked and self.is_accurate

    @property
    def is_accurate(self) -> bool:
        """Whether nothing speaks against its results."""
        return self.row.accuracy is None or self.row.accuracy.passed is not False

    def send_next(self) -> None:
        """Give it the next order of its queue, if it waits for one. Raises EndedError."""
        if self.is_alive and not self.asked and self.queue:
            what, details = self.queue.popleft()
            self.ask(what, **details)

    def is_due(self) -> bool:
        """Whether its answer can be taken without waiting, or is overdue."""
        return self.process.has_answer() or self.clock() >= self._due

    def seconds_to_wait(self) -> float:
        """As in PooledConfiguration."""
        return 0.0 if self._due == math.inf else max(_OVERDUE, self._due - self.clock())

    def order(self, what: Order, seconds: float, **details: Any) -> dict[str, Any]:
        """Give it one order and wait up to `seconds` (0: without limit) for the answer. Raises EndedError."""
        self.limit_by(seconds)
        self.ask(what, **details)
        return self.accept_answer()[1]

    def limit_by(self, seconds: float) -> None:
        """Give it `seconds` from now for what it works on; 0: no limit."""
        self._due = self.clock() + seconds if seconds else math.inf

    def postpone(self, seconds: float) -> None:
        """Extend its time limit by the seconds for which it was paused."""
        self._due += seconds

    def fail(self, failure: Failure) -> None:
        """As in PooledConfiguration."""
        self.outcome = self.outcome or TuneOutcome.FAILED
        super().fail(failure)

    def end(self, outcome: TuneOutcome | None = None) -> None:
        """End its process; `outcome` is what became of it, if that is not known yet."""
        self.outcome = self.outcome or outcome
        self.queue.clear()
        super().end()

    def candidate(self) -> TuneCandidate:
        """Its entry in the report."""
        return TuneCandidate(
            self.row,
            self.outcome or TuneOutcome.UNFINISHED,
            knobs=tuple(sorted(self.knobs or ())),
            skipped=self.skipped,
            stage=self.stage,
            started_s=self.started_s,
            ready_s=self.ready_s,
        )
