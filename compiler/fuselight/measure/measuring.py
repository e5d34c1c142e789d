"""A whole benchmark: starts a process for each configuration, has them take turns, and puts together what they say.

Invariant: one thing is measured at a time. A configuration that fails, hangs or is killed is a row that says so, and
the others go on; what is known is handed to `keep` after each step, so that an early end shows it as unfinished.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fuselight.codec import decode
from fuselight.configurations import EAGER
from fuselight.measure import steady
from fuselight.measure.narrowing import SECONDS
from fuselight.measure.other import EndedError, Other, Row
from fuselight.protocol import MeasurePlan
from fuselight.report import Accuracy, Culprit, Failure, Machine, Measured, MeasuredConfiguration, Work

_MORE_SECONDS = 30.0
"""That a trial of a bisection may take longer than the one before let expect."""
FLOAT64 = "float64"
"""The process that makes the reference; it is no configuration."""


@dataclass
class Measuring:
    """One benchmark."""

    plan: MeasurePlan
    names: Sequence[str]
    """Of the configurations, eager first."""
    start: Callable[[str], Other]
    """Starts the process of a configuration, or of the reference. Raises OSError."""
    tell: Callable[[str], None]
    """Says in words what is being done."""
    keep: Callable[[Measured], None]
    """Takes what is known so far."""
    ahead: Callable[[], object] = lambda: None
    """Does what all processes but the reference's would else do, each for itself, while the reference is made."""
    _waiting: dict[str, Row] = field(default_factory=dict)
    """Started, and not yet begun with."""
    _rows: dict[str, Row] = field(default_factory=dict)
    _done: dict[str, MeasuredConfiguration] = field(default_factory=dict)
    _machine: Machine = field(default_factory=lambda: Machine("?"))
    _work: Work = Work.INFERENCE
    _fresh: bool = False
    _varies: str = ""
    _random: bool | None = None
    _looks: str = ""
    """The configuration that looks at the machine: the first that could be started."""
    _cold: bool = False
    _compared: dict[str, Any] = field(default_factory=dict)
    """What results are compared with: paths of eager's and the reference's, or why there is none."""
    _rounds: int = 0
    _counted: float = 0.0
    _began: float = field(default_factory=time.perf_counter)
    _when: str = field(default_factory=lambda: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
    _retry: list[str] = field(default_factory=list)

    def run(self) -> Measured:
        """Measure all configurations. What fails is in its row."""
        try:
            if self.plan.accuracy:
                self._compared = self._reference()
            else:
                self._launch()
            for name in self.names:
                if EAGER not in self._done or not _is_hopeless(self._done[EAGER].failure):
                    self._await_imports()
                    self._begin(name)
            self._take_turns(list(self._rows))
            self._conclude()
            for name in list(self._retry):
                self._alone(name)
        finally:
            for row in (*self._waiting.values(), *self._rows.values()):
                row.other.end()
        return self.measured(finished=True)

    def measured(self, *, finished: bool = False) -> Measured:
        """What is known by now."""
        known = {**{name: row.measured for name, row in self._rows.items()}, **self._done}
        return Measured(
            work=self._work,
            machine=self._machine,
            configurations=tuple(known[name] for name in self.names if name in known),
            rounds=self._rounds,
            cold_cache=self._cold,
            fresh_inputs=self._fresh,
            random=self._random,
            seconds=time.perf_counter() - self._began,
            counted_seconds=self._counted,
            finished=finished,
            started=self._when,
            order=tuple(self.names),
        )

    def _reference(self) -> dict[str, Any]:
        """Have the reference made, by a process that ends behind it."""
        self.tell("the reference")
        try:
            other = self.start(FLOAT64)
        except OSError as error:
            return {"why": _no_process(error).message}
        try:
            other.ask("reference")
            self._launch()
            made = other.answer("reference", self.plan.limit_seconds)
        except EndedError as ended:
            if _is_hopeless(ended.failure):
                self._done[EAGER] = MeasuredConfiguration(EAGER, failure=ended.failure)
            return {"why": ended.failure.message}
        finally:
            other.end()
        self._varies = made["varies"]
        self._random = bool(self._varies)
        return {key: made[key] for key in ("float64", "why") if key in made}

    def _launch(self) -> None:
        """Start all processes: they import the file beside each other, while nothing is measured yet.

        None builds a module or makes inputs before it is told to, but for what a provider gives: the reference may need
        all memory that there is.
        """
        self.ahead()
        for name in self.names:
            self._start(name)

    def _start(self, name: str, *, alone: bool = False) -> None:
        measured = MeasuredConfiguration(name, alone=alone)
        try:
            row = self._waiting[name] = Row(self.start(name), measured, left=self.plan.limit_seconds)
        except OSError as error:
            self._done[name] = replace(measured, failure=_no_process(error))
            return
        with contextlib.suppress(EndedError):  # it tells why when it is to answer
            row.ask("ready", {})

    def _await_imports(self) -> None:
        """Wait until no process imports any more: from here on one thing is done at a time."""
        for name, row in list(self._waiting.items()):
            if row.imported:
                continue
            try:
                row.answer("ready")
                row.imported = True
            except EndedError as ended:
                self._waiting.pop(name).other.end()
                self._done[name] = replace(row.measured, failure=ended.failure)

    def _begin(self, name: str) -> None:
        """Begin with a configuration: first calls and warm-up, alone on the machine."""
        if name not in self._waiting:
            return
        self.tell(f"{name}: starting")
        row = self._rows[name] = self._waiting.pop(name)
        if self._order(name, "build") is None:
            return
        said = self._order(name, "first")
        if said is not None:
            self._fresh = self._fresh or bool(said["fresh"])
            self._work = Work(said["work"])
            self._cold = self.plan.cold_cache and said["device"] == "cuda"
            if not self._looks:
                self._looks, self._machine = name, decode(Machine, said["machine"])
            if "results" in said:
                self._compared["eager"] = said["results"]
            self._known()
            said = self._order(name, "warm")
        if said is not None:
            row.us = float(said["us"])
        self._known()

    def _order(self, name: str, what: str, **details: Any) -> dict[str, Any] | None:
        """Have a configuration do something; None if it failed, which is then in its row."""
        return self._answer(name, what) if self._ask(name, what, details) else None

    def _together(self, asked: Mapping[str, Sequence[tuple[str, Mapping[str, Any]]]]) -> None:
        """Have several work off their orders beside each other, where nothing is timed."""
        beside = len(self._rows) > 1
        for name, orders in asked.items():
            for what, details in orders:
                if name in self._rows:
                    self._ask(name, what, details, beside=beside)
        for name, orders in asked.items():
            for what, _ in orders:
                if name in self._rows:
                    self._answer(name, what, beside=beside)

    def _ask(self, name: str, what: str, details: Mapping[str, Any], *, beside: bool = False) -> bool:
        try:
            self._rows[name].ask(what, details)
        except EndedError as ended:
            self._ended(name, ended.failure, beside=beside)
            return False
        return True

    def _answer(self, name: str, what: str, *, beside: bool = False) -> dict[str, Any] | None:
        try:
            said = self._rows[name].answer(what)
        except EndedError as ended:
            self._ended(name, ended.failure, beside=beside)
            return None
        if "machine" in said and name == self._looks:
            self._machine = decode(Machine, said["machine"])
        self._counted += said.get("seconds", 0.0)
        return said

    def _ended(self, name: str, failure: Failure, *, beside: bool) -> None:
        """Take note that a configuration is over; `beside`: others were at work with it, though they may be gone."""
        row = self._rows.pop(name)
        row.other.end()
        if failure.kind == "memory" and (beside or self._rows) and not row.measured.alone:
            self._retry.append(name)
        self._done[name] = replace(row.measured, failure=failure)
        self._known()

    def _take_turns(self, names: list[str]) -> None:
        """The timed rounds: each configuration once in each, in an order that turns."""
        plan = self.plan
        rounds = {
            name: steady.rounds_of(self._rows[name].us, seconds=plan.seconds, rounds=plan.rounds)
            for name in names
            if name in self._rows
        }
        self._rounds = max([self._rounds, *rounds.values()])
        number: dict[str, int] = {}
        for name in steady.turns([name for name in names if name in rounds], rounds):
            if name not in self._rows:
                continue
            number[name] = number.get(name, 0) + 1
            self.tell(f"{name}: round {number[name]} of {rounds[name]}")
            share = plan.seconds * rounds[name] / max(plan.rounds, 1)
            calls = steady.calls_of_round(self._rows[name].us, seconds=share, rounds=rounds[name])
            self._order(name, "round", calls=calls)
        self._known()

    def _conclude(self) -> None:
        """Behind the timed rounds: memory, profiles, accuracy; then each process ends."""
        for name in list(self._rows):
            self._look_into(name)
        names = list(self._rows)
        if names and self._looks not in names:  # it has failed: another one has seen the machine before, too
            self._looks = names[0]
        self._read(names)
        self._isolate(names)
        self._close(names)

    def _look_into(self, name: str) -> None:
        """Weigh and profile a call, alone on the machine."""
        self.tell(f"{name}: memory")
        self._order(name, "weigh")
        if self.plan.profile and name in self._rows:
            self.tell(f"{name}: profiling")
            self._order(name, "profile")

    def _read(self, names: Sequence[str]) -> None:
        """Have them compare their results and read their profiles beside each other, where no call is timed."""
        compares = self.plan.accuracy and any(name != EAGER for name in names)
        told = [*["comparing results"] * compares, *["reading profiles"] * self.plan.profile]
        if told:
            self.tell(" and ".join(told))
        judge = ("judge", {**self._compared, "varies": self._varies})
        looks = "" if self.plan.isolated else self._looks
        self._together(
            {  # the long answer behind the short one: it may fill the pipe, and is waited for in turn
                name: [*[judge] * (compares and name != EAGER), ("read", {"look": name == looks})]
                for name in names
            }
        )

    def _isolate(self, names: Sequence[str]) -> None:
        """Time each kernel alone, where that is asked for, with nothing beside it; then the machine is looked at."""
        if not self.plan.isolated:
            return
        self._known()
        for name in names:
            if name != EAGER and name in self._rows:
                self._order(name, "isolate")
        if self._looks in names and self._looks in self._rows:
            self._order(self._looks, "read", look=True)

    def _close(self, names: Sequence[str]) -> None:
        """Take what they learnt of the compile, and have them search for errors; then each process ends."""
        for name in names:
            if name in self._rows:
                self._order(name, "finish")
        self._known()
        wrong = {name: row.measured.accuracy for name, row in self._rows.items() if self._is_wrong(row)}
        for name in sorted(self._rows, key=wrong.__contains__):  # the others go first, and leave their memory
            row = self._rows[name]
            found = wrong.get(name)
            if found is not None:
                self._search(row, found)
            row.other.end()
            self._done[name] = self._rows.pop(name).measured
            if found is not None:
                self._known()

    def _is_wrong(self, row: Row) -> bool:
        """Whether its results differ, and the first line where they do is to be looked for."""
        found = row.measured.accuracy
        return self.plan.bisect and found is not None and found.passed is False

    def _search(self, row: Row, found: Accuracy) -> None:
        """Look for the first line that differs. Whatever comes of it, what was measured stays."""
        self.tell(f"{row.measured.name}: looking for the first line that differs")
        seconds = min(filter(None, (row.left, SECONDS)))
        try:
            row.other.ask("search", seconds=seconds)
            row.take(row.other.answer("search", seconds + _MORE_SECONDS))
        except EndedError as ended:
            why = f"{found.why}; the first line that differs is not known: {ended.failure.message}"
            row.measured = replace(row.measured, accuracy=replace(found, why=why))

    def _alone(self, name: str) -> None:
        """Measure what had no memory beside the others again, now that they are gone."""
        self._done.pop(name, None)
        self._start(name, alone=True)
        self._await_imports()
        self._begin(name)
        self._take_turns([name])
        if name in self._rows:
            self._look_into(name)
        if name in self._rows:
            self._read([name])
            self._isolate([name])
        self._close([name])

    def _known(self) -> None:
        self.keep(self.measured())


def _no_process(error: OSError) -> Failure:
    return Failure(
        Culprit.ENVIRONMENT,
        "internal",
        f"no process could be started for it: {error}",
        "check the limits on processes, memory and disk space of this machine",
    )


def _is_hopeless(failure: Failure | None) -> bool:
    """Whether it would end every other process just so: the file or the inputs cannot be had."""
    return failure is not None and failure.phase in {"import", "build"} and failure.kind != "memory"
