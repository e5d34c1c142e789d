"""The process of a benchmark: it starts one process for each configuration, and runs nothing of the user's itself.

Invariant: what it starts ends with it. Each process has a folder of its own, caches included, so that a first call is
a cold one.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import multiprocessing
import os
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from typing import Any, Protocol

from fuselight.codec import DecodeError, decode, encode
from fuselight.configurations import EAGER, ConfigurationError, parse_configuration
from fuselight.measure import timing
from fuselight.measure.measuring import Measuring
from fuselight.measure.other import EndedError
from fuselight.protocol import MeasurePlan
from fuselight.report import Culprit, Failure, Location, Measured, Report
from fuselight.worker import children, configuration, endings, faults, process, wire
from fuselight.worker.state import Job, RunState, keep

_LEAVES = 10.0
"""Seconds that a process has to end by itself behind its last order."""
_LOOKS = 0.2
"""Seconds between looks whether a process that has not answered is there."""
_PAUSE = 0.005
_SAYS = 0.3
"""Seconds that a process has to write down where it is."""
_OF_MEMORY = "OutOfMemoryError"
_NO_COMPILER = "InvalidCxxCompiler"
_EXAMINE = "mend the C++ compiler: `fuselight doctor` (Fuselight: Check the Environment) says how"


def coordinate(state: RunState) -> None:
    """Measure the target of a run; what comes of it is in `state.measured` and `state.merged`."""
    plan = state.job.request.measure or MeasurePlan()
    try:
        names = _names(plan, compiled=state.job.request.target.compiled)
    except ConfigurationError as error:
        state.failures.append(
            Failure(
                Culprit.USER,
                "configuration",
                str(error),
                "docs/measuring.md has the configurations; the setting is fuselight.bench.configurations",
            )
        )
        return
    started: dict[str, Process] = {}

    def start(name: str) -> Process:
        started[name] = Process(state.job, name)
        return started[name]

    def known(measured: Measured) -> None:
        state.measured = measured
        state.merged = _merged(started, state.merged)
        with contextlib.suppress(OSError):  # no room to write: the end may find some
            keep(state)
        state.tell(
            "measured", f"{len(measured.configurations)} of {len(measured.order)} configurations", None, None
        )

    def load() -> None:  # seconds; a fork finds it there
        if state.job.forked:
            timing.load(plan.device)
            importlib.import_module("fuselight.inductor")

    benchmark = Measuring(plan, names, start, functools.partial(_say, state), known, load)
    try:
        with state.step("measure", "starting"):
            state.measured = benchmark.run()
    finally:
        state.measured = state.measured or benchmark.measured()
        state.merged = _merged(started, state.merged)
        _explain(state)


def _names(plan: MeasurePlan, *, compiled: bool) -> tuple[str, ...]:
    asked = plan.configurations or ("written" if compiled else "default",)
    return tuple(dict.fromkeys([EAGER, *(parse_configuration(name).name for name in asked)]))


def _say(state: RunState, text: str) -> None:
    state.tell("measure", text, None, None)


def _merged(started: dict[str, Process], before: Report | None) -> Report | None:
    """The report of the first configuration that compiled, with the texts of all of them."""
    reports = {name: one.report for name, one in started.items() if one.report is not None}
    chosen = next((report for name, report in reports.items() if name != EAGER), reports.get(EAGER, before))
    if chosen is None:
        return None
    texts = {key: text for report in reports.values() for key, text in report.texts.items()}
    notes = tuple(dict.fromkeys(note for report in reports.values() for note in report.notes))
    problems = tuple(dict.fromkeys(problem for report in reports.values() for problem in report.problems))
    return replace(chosen, texts=texts, notes=notes, problems=problems, failures=())


def _explain(state: RunState) -> None:
    """Where nothing could be measured, the run failed as its first configuration did."""
    measured = state.measured
    if measured is None or any(row.wall is not None for row in measured.configurations):
        return
    failures = [row.failure for row in measured.configurations if row.failure is not None]
    state.failures.extend(failures[:1])


class _Started(Protocol):
    """A process of the operating system."""

    @property
    def pid(self) -> int:
        """Its number."""
        ...

    def wait(self, seconds: float, /) -> int | None:
        """Wait for its end. Returns its status, a signal's number below 0; None while it goes on."""
        ...


class _Forked:
    """A fork of this process."""

    def __init__(self, made: Any) -> None:
        self._made = made
        self.pid: int = made.pid

    def wait(self, seconds: float) -> int | None:
        """As _Started. Not by `join`, which waits for whatever the process has forked as well."""
        until = time.monotonic() + seconds
        while self._made.exitcode is None and time.monotonic() < until:
            time.sleep(_PAUSE)
        status: int | None = self._made.exitcode
        return status


def _fork(job: Job, name: str, channel: Connection) -> _Started:
    made = multiprocessing.get_context("fork").Process(
        target=configuration.main, args=(job, name, channel, os.getpid()), name=name
    )
    made.start()
    return _Forked(made)


class _Spawned:
    """A fresh process."""

    def __init__(self, made: subprocess.Popen[bytes]) -> None:
        self._made = made
        self.pid = made.pid

    def wait(self, seconds: float) -> int | None:
        """As _Started."""
        try:
            return self._made.wait(seconds)
        except subprocess.TimeoutExpired:
            return None


def _spawn(job: Job, name: str, channel: Connection) -> _Started:
    made = children.spawn(["--configuration", str(channel.fileno()), job.directory], (channel.fileno(),))
    with made.stdin or contextlib.nullcontext() as stdin:
        if stdin is not None:
            stdin.write(wire.frame(wire.dump({"request": encode(job.request), "name": name})))
    return _Spawned(made)


@dataclass
class Process:
    """The process of one configuration (measure.other.Other)."""

    job: Job
    name: str
    report: Report | None = None
    """What it has learnt, once it has finished."""
    _directory: str = field(init=False)
    _channel: Connection = field(init=False)
    _process: _Started = field(init=False)

    def __post_init__(self) -> None:
        self._directory = tempfile.mkdtemp(prefix="configuration-", dir=self.job.directory)
        pipe: Any = multiprocessing.Pipe()  # of another type on Windows
        self._channel, theirs = pipe
        job = replace(self.job, directory=self._directory)
        start = _fork if job.forked else _spawn
        with theirs:
            self._process = start(job, self.name, theirs)

    def ask(self, what: str, /, **details: Any) -> None:
        """As measure.other.Other."""
        try:
            self._channel.send_bytes(wire.dump({"do": what, **details}))
        except OSError:
            raise EndedError(self._why()) from None

    def answer(self, what: str, seconds: float, /) -> dict[str, Any]:
        """As measure.other.Other."""
        due = time.monotonic() + seconds if seconds else None
        try:
            self._wait(what, seconds, due)
            said = wire.load(self._channel.recv_bytes())
        except (EOFError, OSError):
            raise EndedError(self._why()) from None
        if what == "finish":
            self.report = self._read("report.json")
        if "failure" in said:
            raise EndedError(decode(Failure, said["failure"]))
        return dict(said)

    def _wait(self, what: str, seconds: float, due: float | None) -> None:
        """Wait until there is an answer, or an end to the waiting. Raises EndedError, and EOFError if it is gone."""
        while not self._channel.poll(_LOOKS):
            if self._process.wait(0) is not None and not self._channel.poll(0):
                raise EOFError  # what it has forked may hold its end open
            if due is not None and time.monotonic() >= due:
                raise EndedError(self._out_of_time(seconds, what))

    def end(self) -> None:
        """End it, and whatever it has started."""
        self._channel.close()
        self._kill()

    def _kill(self) -> None:
        if self._process.wait(0) is not None:
            return  # its number may be another process's by now
        for one in reversed(process.descendants(self._process.pid)):
            with contextlib.suppress(OSError):
                os.kill(one, signal.SIGKILL)
        self._process.wait(_LEAVES)

    def _out_of_time(self, seconds: float, phase: str) -> Failure:
        """End it, once it has said where it is."""
        faults_path = os.path.join(self._directory, "faults.txt")
        with contextlib.suppress(OSError):
            os.kill(self._process.pid, process.SAMPLE_SIGNAL)
        time.sleep(_SAYS)
        self._kill()
        stack: tuple[Location, ...] = ()
        with contextlib.suppress(OSError), open(faults_path, encoding="utf-8", errors="replace") as file:
            stack = faults.read_stack(file.read())
        place = faults.innermost_in(stack, self.job.request.roots)
        plan = self.job.request.measure
        if phase != "search" and plan is not None and plan.limit_seconds:
            seconds = plan.limit_seconds  # of which so many were left; a search has a limit of its own
        failure = endings.timeout_failure(seconds, (place,) if place else (), "measure", None, measured=True)
        return replace(failure, phase=phase)

    def _why(self) -> Failure:
        """Why it is gone, as it says itself, else as its end shows."""
        status = self._process.wait(_LEAVES)
        report = self._read("answer.json") or self._read("partial.json")
        if report is not None and report.failures:
            return _in_their_kind(report.failures[-1])
        phase = "measure"
        if status is None:  # it goes on, without the channel
            return _in_their_kind(endings.descriptors_failure(self.job.request, phase, None, ()))
        if status < 0:
            return endings.signal_failure(-status, (), phase, None)
        if status == endings.OUT_OF_MEMORY:
            return endings.memory_failure(self.job.request.limits.memory_mb, (), phase, None)
        text = ""
        with (
            contextlib.suppress(OSError),
            open(os.path.join(self._directory, "internal.txt"), encoding="utf-8") as file,
        ):
            text = file.read()
        return endings.internal_failure(text or f"its process ended with status {status}")

    def _read(self, name: str) -> Report | None:
        try:
            with open(os.path.join(self._directory, name), "rb") as file:
                report: Report = decode(Report, wire.load(file.read()))
                return report
        except (OSError, wire.WireError, DecodeError):
            return None  # it has written none, or was ended while it did


def _in_their_kind(failure: Failure) -> Failure:
    """A failure of torch's by what there is to do: for want of memory there may be enough when the others are gone."""
    if _OF_MEMORY in (failure.exception or "") or _OF_MEMORY in failure.message:
        return replace(failure, kind="memory")
    if failure.kind == "descriptors":
        return replace(
            failure, next_step="close only what the program has opened: a benchmark talks through others"
        )
    if _NO_COMPILER in failure.message:
        return replace(failure, culprit=Culprit.ENVIRONMENT, kind="toolchain", next_step=_EXAMINE)
    return failure
