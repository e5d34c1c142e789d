"""The coordinator process of a benchmark: starts one process per configuration and runs no user code itself.

Invariant: its child processes end with it. Each process has its own folder, including caches, so that a first call is a
cold call.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from typing import Any

from fuselight.adapters.torch_api.dynamo import errors
from fuselight.measure import timing
from fuselight.measure.coordinator import Measuring
from fuselight.measure.orders import Order
from fuselight.measure.pool import EndedError
from fuselight.shared import wire
from fuselight.shared.codec import DecodeError, decode
from fuselight.shared.configurations import EAGER, ConfigurationError, parse_configuration
from fuselight.shared.report import Culprit, Failure, Measured, Report, innermost_user_frame
from fuselight.worker.child import run_failures
from fuselight.worker.child.request_results import TimedResult
from fuselight.worker.child.state import ChildJob, RunState, keep, kept_folder
from fuselight.worker.processes import children, process
from fuselight.worker.timed import configuration
from fuselight.worker.timed.estimated_peaks import ESTIMATE, with_estimates

_LEAVES = 10.0
"""Seconds that a process has to exit after its last order."""
_LOOKS = 0.2
"""Seconds between checks whether a process that has not answered is still alive."""
_ESTIMATES = 60.0
"""Seconds that an estimate of memory may take."""
_PAUSE = 0.005
_SAYS = 0.3
"""Seconds that a process has to record its position."""
_OF_MEMORY = "OutOfMemoryError"
_NO_COMPILER = "InvalidCxxCompiler"
_EXAMINE = "fix the C++ compiler: `fuselight doctor` (Fuselight: Check the Environment) says how"


def coordinate(state: RunState) -> None:
    """Measure the target of a run; its result is a `TimedResult`."""
    plan = state.job.plan
    try:
        asked = plan.configurations or ("written" if state.job.request.target.compiled else "default",)
        names = tuple(dict.fromkeys([EAGER, *map(_configuration_name, asked)]))
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
    started: dict[str, ConfigurationProcess] = {}
    result = state.result = TimedResult()

    def start(name: str) -> ConfigurationProcess:
        started[name] = ConfigurationProcess(state.job, name)
        return started[name]

    def known(measured: Measured) -> None:
        result.measured = measured
        result.captured = merged_report(started, result.captured)
        with contextlib.suppress(OSError):  # no room to write: the end may find some
            keep(state)
        state.progress.tell(
            "measured", f"{len(measured.configurations)} of {len(measured.order)} configurations"
        )

    def load() -> None:  # takes seconds; forked processes inherit it
        if state.job.forked:
            timing.load(plan.device)
            importlib.import_module("fuselight.capture.inductor")

    benchmark = Measuring(plan, names, start, functools.partial(state.progress.tell, "measure"), known, load)
    try:
        with state.step("measure", "starting"):
            measured = result.measured = benchmark.run()
        if plan.estimates_memory and not state.failures:
            estimated = estimated_peaks(state, state.job)
            rows = with_estimates(measured.configurations, estimated)
            result.measured = replace(measured, configurations=rows)
    finally:
        result.measured = result.measured or benchmark.measured()
        result.captured = merged_report(started, result.captured)
        result.imported.extend(libraries(started))
        _explain(state, result.measured)


def estimated_peaks(state: RunState, job: ChildJob) -> Measured | None:
    """Estimate what the configurations of a job need, in a process of its own; None if that fails or takes long."""
    state.progress.tell("measure", "estimating memory")
    try:
        process = ConfigurationProcess(job, ESTIMATE)
    except OSError:
        return None
    try:
        report = process.last_report(_ESTIMATES)
    finally:
        process.end()
    if report is not None:
        state.notes.extend(note for note in report.notes if note.kind == "workspaces")
    return report.measured if report is not None else None


def _configuration_name(text: str) -> str:
    """The name of a configuration that a benchmark can measure. Raises ConfigurationError."""
    configuration = parse_configuration(text)
    if configuration.fixes:
        raise ConfigurationError(
            f"`fixes` in {text!r} is for a search: `fuselight tune` applies verified fixes"
        )
    return configuration.name


def merged_report(started: dict[str, ConfigurationProcess], before: Report | None) -> Report | None:
    """The report of the first configuration that compiled, with the texts of all configurations."""
    reports = {
        name: configuration_process.report
        for name, configuration_process in started.items()
        if configuration_process.report is not None
    }
    chosen = next((report for name, report in reports.items() if name != EAGER), reports.get(EAGER, before))
    if chosen is None:
        return None
    texts = {key: text for report in reports.values() for key, text in report.texts.items()}
    notes = tuple(dict.fromkeys(note for report in reports.values() for note in report.notes))
    problems = tuple(dict.fromkeys(problem for report in reports.values() for problem in report.problems))
    return replace(chosen, texts=texts, notes=notes, problems=problems, failures=())


def libraries(started: Mapping[str, ConfigurationProcess]) -> Iterator[str]:
    """The installed modules that the configurations have imported."""
    for configuration_process in started.values():
        yield from configuration_process.libraries()


def _explain(state: RunState, measured: Measured) -> None:
    """If nothing could be measured, use the failure of the first configuration for the run."""
    if any(row.wall is not None for row in measured.configurations):
        return
    failures = [row.failure for row in measured.configurations if row.failure is not None]
    state.failures.extend(failures[:1])


@dataclass(frozen=True)
class _Started:
    """An operating system process."""

    pid: int
    status: Callable[[], int | None]
    """Returns its exit status, below 0 for a signal; None while it is running."""

    def wait(self, seconds: float) -> int | None:
        """Wait up to `seconds` for its exit status; not by `join`, which waits for whatever it has forked as well."""
        until = time.monotonic() + seconds
        while (status := self.status()) is None and time.monotonic() < until:
            time.sleep(_PAUSE)
        return status


def _fork(job: ChildJob, name: str, channel: Connection) -> _Started:
    fork_process = multiprocessing.get_context("fork").Process(
        target=configuration.main, args=(job, name, channel, os.getpid()), name=name
    )
    fork_process.start()
    return _Started(fork_process.pid or 0, lambda: fork_process.exitcode)


def _spawn(job: ChildJob, name: str, channel: Connection) -> _Started:
    process = children.spawn(["--configuration", str(channel.fileno()), job.directory], (channel.fileno(),))
    children.give_job(process, job.request, name=name)
    return _Started(process.pid, process.poll)


@dataclass
class ConfigurationProcess:
    """The process of one configuration (measure.pool.RemoteConfiguration)."""

    job: ChildJob
    name: str
    report: Report | None = None
    """What the process recorded, once it has finished."""
    _ended_for: Failure | None = None
    """Why `end_above` ended it."""
    _directory: str = field(init=False)
    _channel: Connection = field(init=False)
    _process: _Started = field(init=False)

    def __post_init__(self) -> None:
        self._directory = tempfile.mkdtemp(prefix="configuration-", dir=self.job.directory)
        pipe: Any = multiprocessing.Pipe()  # of another type on Windows
        self._channel, theirs = pipe
        job = replace(self.job, directory=self._directory, kept_texts=kept_folder(self._directory))
        start = _fork if job.forked else _spawn
        with theirs:
            self._process = start(job, self.name, theirs)

    def ask(self, what: Order, /, **details: Any) -> None:
        """As in RemoteConfiguration."""
        try:
            self._channel.send_bytes(wire.dump({"do": what.value, **details}))
        except OSError:
            raise EndedError(self._why()) from None

    def answer(self, what: Order, seconds: float, /) -> dict[str, Any]:
        """As in RemoteConfiguration."""
        due = time.monotonic() + seconds if seconds else None
        try:
            self._wait(what, seconds, due)
            answer = wire.load(self._channel.recv_bytes())
        except (EOFError, OSError):
            raise EndedError(self._why()) from None
        if what == Order.FINISH:
            self.report = self._read_report("report.json")
        if "failure" in answer:
            raise EndedError(decode(Failure, answer["failure"]))
        return dict(answer)

    def _wait(self, what: Order, seconds: float, due: float | None) -> None:
        """Wait for an answer or the time limit. Raises EndedError, and EOFError if the process has exited."""
        while not self._channel.poll(_LOOKS):
            if self._process.wait(0) is not None and not self._channel.poll(0):
                raise EOFError  # what it has forked may hold its end open
            if due is not None and time.monotonic() >= due:
                raise EndedError(self._out_of_time(seconds, what))

    @property
    def channel(self) -> Connection:
        """Has its answers."""
        return self._channel

    def has_answer(self) -> bool:
        """Whether `answer` returns, or raises, without waiting."""
        return self._channel.poll(0) or self._process.wait(0) is not None

    def last_report(self, seconds: float) -> Report | None:
        """The report that the process leaves when it ends by itself; None if it has not ended after `seconds`."""
        return self._read_report("answer.json") if self._process.wait(seconds) == 0 else None

    def pause(self) -> None:
        """Stop the process and everything that it has started, so that others can be timed."""
        if self._process.wait(0) is None:
            process.pause_tree(self._process.pid)

    def resume(self) -> None:
        """Let a paused process continue."""
        if self._process.wait(0) is None:
            process.resume_tree(self._process.pid)

    def end(self) -> None:
        """End the process and everything that it has started."""
        self._channel.close()
        self._kill()

    def end_above(self, limit_mb: int) -> None:
        """End the process with everything that it has started, if they use more memory than that, in MiB."""
        if self._process.wait(0) is not None:
            return
        limit = limit_mb << 20
        used = process.tree_memory(self._process.pid, enough=limit)
        if used is not None and used > limit:
            self._ended_for = run_failures.memory_failure(
                self.job.request, (), "measure", None, limit_mb=limit_mb
            )
            self._kill()

    def _kill(self) -> None:
        if self._process.wait(0) is not None:
            return  # its number may be another process's by now
        for descendant in reversed(process.descendants(self._process.pid)):
            with contextlib.suppress(OSError):
                os.kill(descendant, signal.SIGKILL)
        self._process.wait(_LEAVES)

    def _out_of_time(self, seconds: float, what: Order) -> Failure:
        """End the process after it has recorded its position."""
        with contextlib.suppress(OSError):
            os.kill(self._process.pid, process.SAMPLE_SIGNAL)
        time.sleep(_SAYS)
        self._kill()
        stack = children.read_stack(self._read("faults.txt"))
        place = innermost_user_frame(stack, self.job.request.roots)
        plan = self.job.plan
        if what != Order.SEARCH and plan.limit_seconds:
            seconds = plan.limit_seconds  # of which so many were left; a search has a limit of its own
        failure = run_failures.timeout_failure(
            seconds, (place,) if place else (), "measure", None, setting="fuselight.bench.timeLimit"
        )
        return replace(failure, phase=what.value)

    def _why(self) -> Failure:
        """The reason for its exit, from its own record or its exit status."""
        if self._ended_for is not None:
            return self._ended_for
        status = self._process.wait(_LEAVES)
        report = self._read_report("answer.json") or self._read_report("partial.json")
        if report is not None and report.failures:
            return in_their_kind(report.failures[-1], self.name)
        phase = "measure"
        if status is None:  # it goes on, without the channel
            lost = run_failures.descriptors_failure(self.job.request, phase, None, ())
            return in_their_kind(lost, self.name)
        if status < 0:
            return run_failures.signal_failure(-status, self.job.request, (), phase, None)
        if status == run_failures.OUT_OF_MEMORY:
            return run_failures.memory_failure(self.job.request, (), phase, None)
        text = (self._read("internal.txt") or b"").decode("utf-8", "replace")
        return run_failures.internal_failure(text or f"its process ended with status {status}")

    def libraries(self) -> list[str]:
        """The installed modules that the process has imported; empty if it has not finished."""
        try:
            answer = wire.load(self._read("ahead.json") or b"")
        except wire.WireError:
            return []
        modules = answer.get("modules") if isinstance(answer, dict) else None
        return [name for name in modules if isinstance(name, str)] if isinstance(modules, list) else []

    def _read(self, name: str) -> bytes | None:
        return children.read_file(os.path.join(self._directory, name))

    def _read_report(self, name: str) -> Report | None:
        try:
            return decode(Report, wire.load(self._read(name) or b""))
        except (wire.WireError, DecodeError):
            return None  # it has written none, or was ended while it did


def in_their_kind(failure: Failure, configuration: str) -> Failure:
    """Classify a torch failure by its remedy: out of memory may succeed after the other processes have ended."""
    if _OF_MEMORY in (failure.exception or "") or _OF_MEMORY in failure.message:
        return replace(failure, kind="memory")
    if failure.kind == "descriptors":
        return replace(
            failure,
            next_step="close only what the program opened: the benchmark needs the others",
        )
    if failure.exception == ConfigurationError.__name__:  # known only once the target was built
        message = failure.message.removeprefix(f"{failure.exception}: ")
        next_step = "leave it out of the configuration; docs/measuring.md says what it is for"
        return replace(
            failure, culprit=Culprit.USER, kind="configuration", message=message, next_step=next_step
        )
    if errors.OVERWRITTEN in failure.message and parse_configuration(configuration).blocks:
        message = (
            "each call of a block overwrote the results of the one before: it has CUDA graphs of its own"
        )
        return replace(
            failure, culprit=Culprit.USER, kind="configuration", message=message,
            next_step="leave either `+blocks` or the CUDA graphs out of the configuration",
        )  # fmt: skip
    if _NO_COMPILER in failure.message:
        return replace(failure, culprit=Culprit.ENVIRONMENT, kind="toolchain", next_step=_EXAMINE)
    return failure
