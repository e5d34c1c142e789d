"""The processes of a coordinator's configurations: starts them, gives orders, takes answers, and records how each ends.

Invariant: a process that fails, hangs or is killed becomes a row with that failure; nothing is raised for it. The
reference is a process of the pool, and no configuration.
"""

from __future__ import annotations

import abc
import contextlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Protocol, TypeVar

from fuselight.measure.orders import Order
from fuselight.shared.codec import decode
from fuselight.shared.report import Culprit, Failure, Machine, MeasuredConfiguration, Work

FLOAT64 = "float64"
"""Name of the process that computes the reference; it is not a configuration."""


class EndedError(Exception):
    """The process will not answer any more; the message says why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class RemoteConfiguration(Protocol):
    """The process of one configuration, from the coordinator's side."""

    def ask(self, what: Order, /, **details: Any) -> None:
        """Send an order. Answers arrive in the order of the requests. Raises EndedError."""
        ...

    def answer(self, what: Order, seconds: float, /) -> dict[str, Any]:
        """Wait up to `seconds` (0: without limit) for the answer to an order. Raises EndedError."""
        ...

    def end(self) -> None:
        """End the process and everything that it has started."""
        ...


Process = TypeVar("Process", bound=RemoteConfiguration)


@dataclass(eq=False)
class PooledConfiguration(Generic[Process]):
    """One configuration, its process, and what is known of it."""

    name: str
    process: Process
    clock: Callable[[], float]
    """Seconds."""
    row: MeasuredConfiguration = field(init=False)
    us: float = field(default=0.0, init=False)
    """Time of a call by the host's clock, after its warm-up, microseconds; 0 before it."""
    is_alive: bool = field(default=True, init=False)
    """Whether its process was not ended."""
    pending: deque[Order] = field(default_factory=deque, init=False)
    """Orders without an answer, the oldest first."""

    def __post_init__(self) -> None:
        self.row = MeasuredConfiguration(self.name)

    def seconds_to_wait(self) -> float:
        """Seconds to wait for its next answer; 0: without limit."""
        return 0.0

    def ask(self, what: Order, **details: Any) -> None:
        """Send an order. Raises EndedError."""
        self.process.ask(what, **details)
        self.pending.append(what)

    def accept_answer(self, seconds: float | None = None) -> tuple[Order, dict[str, Any]]:
        """Wait for the answer to the oldest order, up to `seconds` or its time limit. Raises EndedError."""
        what = self.pending.popleft()
        answer = self.process.answer(what, self.seconds_to_wait() if seconds is None else seconds)
        if "row" in answer:
            self.row = replace(decode(MeasuredConfiguration, answer["row"]), alone=self.row.alone)
        return what, answer

    def fail(self, failure: Failure) -> None:
        """Record why it has no, or no further, measurements, and end its process."""
        self.row = replace(self.row, failure=failure)
        self.end()

    def end(self) -> None:
        """End its process."""
        if self.is_alive:
            self.is_alive = False
            self.pending.clear()
            self.process.end()


Member = TypeVar("Member", bound=PooledConfiguration[Any])


@dataclass(kw_only=True)
class ConfigurationPool(abc.ABC, Generic[Process, Member]):
    """Every configuration that a coordinator has started, and the process of the reference."""

    start_process: Callable[[str], Process]
    """Starts the process of a configuration, or of the reference. Raises OSError."""
    limit_seconds: float
    """Time limit of one configuration; 0 means no limit."""
    changed: Callable[[], None] = lambda: None
    """Called after each failure."""
    work: Work = Work.INFERENCE
    """What a call does: as requested, until the first call says it."""
    members: dict[str, Member] = field(default_factory=dict, init=False)
    """By name, in the order in which they were started."""
    not_started: dict[str, MeasuredConfiguration] = field(default_factory=dict, init=False)
    """Rows of configurations for which no process could be started."""
    reference: Member | None = field(default=None, init=False)
    machine: Machine = field(default_factory=lambda: Machine("?"), init=False)
    compared: dict[str, Any] = field(default_factory=dict, init=False)
    """What results are compared with: paths of eager's results and of the reference, or why there is none."""
    varies: str = field(default="", init=False)
    """How eager's results differ from call to call, if they do."""
    drawn: tuple[str, ...] = field(default=(), init=False)
    """The functions of torch that draw random numbers in a call, if it is for these that they differ."""

    def launch(self, name: str, member_of: Callable[[Process], Member]) -> Member | None:
        """Start a process; None if that was not possible, and the row of the configuration says so."""
        self.members.pop(name, None)
        self.not_started.pop(name, None)
        try:
            member = member_of(self.start_process(name))
        except OSError as error:
            self.not_started[name] = MeasuredConfiguration(name, failure=_no_process(error))
            return None
        self.members[name] = member
        return member

    def launch_reference(self, member_of: Callable[[Process], Member]) -> Member | None:
        """Start the process of the reference; None if that was not possible."""
        try:
            self.reference = member_of(self.start_process(FLOAT64))
        except OSError as error:
            self.compared["why"] = _no_process(error).message
        return self.reference

    @contextlib.contextmanager
    def recorded_end(self, member: Member) -> Iterator[None]:
        """Record the failure of a process that ends within the block."""
        try:
            yield
        except EndedError as ended:
            member.fail(ended.failure)
            if member is self.reference:
                self.compared["why"] = ended.failure.message
            self.changed()

    @abc.abstractmethod
    def reads_machine(self, member: Member) -> bool:
        """Whether the machine's state is taken from the answers of this process."""

    def take_answer(self, member: Member, what: Order, answer: Mapping[str, Any]) -> None:
        """Store what an answer says of the target, the machine or the reference."""
        if what == Order.REFERENCE:
            self.varies, self.drawn = answer["varies"], tuple(answer.get("drawn", ()))
            self.compared.update({key: answer[key] for key in ("float64", "why") if key in answer})
            member.end()
        elif what == Order.FIRST:
            self.work = Work(answer["work"])
            if "results" in answer:
                self.compared["eager"] = answer["results"]
        if "machine" in answer and self.reads_machine(member):
            self.machine = decode(Machine, answer["machine"])

    @property
    def comparison(self) -> dict[str, Any]:
        """What an order to compare results says."""
        return {**self.compared, "varies": self.varies, "drawn": list(self.drawn)}

    def end(self) -> None:
        """End every process."""
        for member in (self.reference, *self.members.values()):
            if member is not None:
                member.end()


def _no_process(error: OSError) -> Failure:
    """Describe a configuration for which the system could not start a process."""
    return Failure(
        Culprit.ENVIRONMENT,
        "internal",
        f"no process could be started for it: {error}",
        "check the limits on processes, memory and disk space of this machine",
    )
