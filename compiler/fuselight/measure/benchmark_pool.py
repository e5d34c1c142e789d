"""The processes of a benchmark: each waits for its turn, and is charged for the time that it was waited for.

Invariant: a configuration's time limit starts when it gets an order, even while the coordinator waits for others; it
is charged only for the time that the coordinator waited for its own answers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fuselight.measure.orders import Order
from fuselight.measure.pool import FLOAT64, ConfigurationPool, PooledConfiguration, RemoteConfiguration
from fuselight.shared.report import MeasuredConfiguration

_LEAST_SECONDS = 1.0
"""Minimum wait for an answer, whatever time is left: it may have arrived already."""


@dataclass(eq=False)
class ResultRow(PooledConfiguration[RemoteConfiguration]):
    """One configuration of a benchmark."""

    left: float = 0.0
    """Seconds that it may still use; 0 means no limit."""
    has_begun: bool = False
    """Whether it was given work."""
    _due: float = 0.0
    """Clock time at which its limit expires if it works on the current order."""

    def seconds_to_wait(self) -> float:
        """As in PooledConfiguration."""
        return max(_LEAST_SECONDS, self._due - self.clock()) if self.left else 0.0

    def ask(self, what: Order, **details: Any) -> None:
        """As in PooledConfiguration."""
        super().ask(what, **details)
        self._due = self.clock() + self.left

    def accept_answer(self, seconds: float | None = None) -> tuple[Order, dict[str, Any]]:
        """As in PooledConfiguration; the wait is charged."""
        began = self.clock()
        accepted = super().accept_answer(seconds)
        if self.left:
            self.left = max(_LEAST_SECONDS, self.left - (self.clock() - began))
        return accepted

    @property
    def is_known(self) -> bool:
        """Whether the result has an entry of it."""
        return self.has_begun or self.row.failure is not None


@dataclass(kw_only=True)
class BenchmarkPool(ConfigurationPool[RemoteConfiguration, ResultRow]):
    """The configurations of a benchmark."""

    clock: Callable[[], float]
    """Seconds."""
    retry: list[str] = field(default_factory=list, init=False)
    """Configurations that ran out of memory alongside others."""
    counted_seconds: float = field(default=0.0, init=False)
    """Seconds of timed calls."""
    _machine_source: str = field(default="", init=False)
    """The configuration whose process reads the machine's state: the first that made a call."""

    @property
    def waiting(self) -> list[ResultRow]:
        """Started processes that have not been given work."""
        return [row for row in self.members.values() if row.is_alive and not row.has_begun]

    @property
    def active(self) -> list[ResultRow]:
        """Configurations that are being measured."""
        return [row for row in self.members.values() if row.is_alive and row.has_begun]

    @property
    def rows(self) -> dict[str, MeasuredConfiguration]:
        """What is known of each configuration that was given work or that failed."""
        known = {name: row.row for name, row in self.members.items() if row.is_known}
        return {**known, **self.not_started}

    def start(self, name: str, *, alone: bool = False) -> None:
        """Start the process of a configuration, which imports the file."""
        row = self.launch(name, lambda process: self._row(name, process))
        if row is not None:
            row.row = replace(row.row, alone=alone)
            with self.recorded_end(row):
                row.ask(Order.READY)
        elif alone:
            self.not_started[name] = replace(self.not_started[name], alone=True)

    def start_reference(self) -> ResultRow | None:
        """Start to compute the reference; None if no process could be started."""
        reference = self.launch_reference(lambda process: self._row(FLOAT64, process))
        if reference is not None:
            with self.recorded_end(reference):
                reference.ask(Order.REFERENCE)
        return reference

    def await_imports(self) -> None:
        """Wait until every process has finished importing: from here on one step runs at a time."""
        for row in self.waiting:
            if row.pending:
                with self.recorded_end(row):
                    row.accept_answer()

    def order(self, row: ResultRow, what: Order, **details: Any) -> dict[str, Any] | None:
        """Send an order and wait for the answer; None if the configuration has failed."""
        if row.is_alive:
            with self._measured_end(row):
                row.ask(what, **details)
                return self._answer(row)
        return None

    def together(
        self,
        orders: Mapping[ResultRow, Sequence[tuple[Order, Mapping[str, Any]]]],
        tell: Callable[[int], None],
    ) -> dict[ResultRow, dict[str, Any]]:
        """Run several configurations in parallel, for orders that time nothing; returns the last answer of each.

        `tell` gets the number of those that are done.
        """
        answers: dict[ResultRow, dict[str, Any]] = {}
        parallel = len(self.active) > 1
        for row, asked in orders.items():
            for what, details in asked:
                if row.is_alive:
                    with self._measured_end(row, parallel=parallel):
                        row.ask(what, **details)
        for done, row in enumerate(orders, 1):
            while row.pending:
                with self._measured_end(row, parallel=parallel):
                    answers[row] = self._answer(row)
            if done < len(orders):
                tell(done)
        return answers

    def reads_machine(self, member: ResultRow) -> bool:
        """As in ConfigurationPool."""
        self._machine_source = self._machine_source or member.name
        return member.name == self._machine_source

    @property
    def machine_reader(self) -> ResultRow | None:
        """The configuration whose process reads the machine's state, while it is measured."""
        return next((row for row in self.active if row.name == self._machine_source), None)

    def _row(self, name: str, process: RemoteConfiguration) -> ResultRow:
        return ResultRow(name, process, self.clock, left=self.limit_seconds)

    def _answer(self, row: ResultRow) -> dict[str, Any]:
        what, answer = row.accept_answer()
        self.take_answer(row, what, answer)
        self.counted_seconds += answer.get("seconds", 0.0)
        return answer

    @contextlib.contextmanager
    def _measured_end(self, row: ResultRow, *, parallel: bool = False) -> Iterator[None]:
        """As `recorded_end`, for a configuration that is measured; `parallel`: others are active as well."""
        with self.recorded_end(row):
            yield
        if row.is_alive:
            return
        failure = row.row.failure
        if (
            failure is not None
            and failure.kind == "memory"
            and (parallel or self.active)
            and not row.row.alone
        ):
            self.retry.append(row.name)
        if row.name == self._machine_source:
            self._machine_source = next(
                (other.name for other in self.active), ""
            )  # another process takes over
