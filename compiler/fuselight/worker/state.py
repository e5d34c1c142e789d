"""What one run is given, what it has learnt so far, and how it tells and keeps that.

Invariant: what is kept is a file put in place whole, opened by path: user code may have closed every descriptor, and
may end the process at any time. Nothing is sent or kept by a process that user code has forked.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from fuselight import dynamo, torch_api
from fuselight.codec import encode
from fuselight.growing import GrowingJson
from fuselight.protocol import Analyse, Progress
from fuselight.report import (
    Assembled,
    Call,
    Device,
    Failure,
    Inputs,
    Location,
    Measured,
    Note,
    Problem,
    Report,
    Rung,
    TargetRef,
)
from fuselight.target import importing
from fuselight.target.calls import asked_notes
from fuselight.worker import wire

if TYPE_CHECKING:
    from fuselight.inductor import Generation
    from fuselight.prims import OperatorPaths
    from fuselight.target.rungs import Answered

_PROGRESS_EVERY = 0.1

# As they are before any user code runs, which may put its own in their place, as tests do that mock them.
getpid = os.getpid
_fstat, _write, _rename, _open = os.fstat, os.write, os.replace, open


@dataclass(frozen=True)
class Job:
    """What one run is given."""

    request: Analyse
    directory: str
    """Private folder of this run: answer, partial answer and fault dumps go here."""
    started_with: frozenset[str]
    """Modules of Python's own start."""
    progress: int
    """Descriptor of the pipe for progress; it may be gone by the time it is used."""
    threads: int | None = None
    """Threads that torch would use by itself; the host runs with one."""
    fake: str | None = None
    """Why this run must use fake tensors, None if it may use real ones."""

    @property
    def forked(self) -> bool:
        """Whether its process is a fork of the host, and so may fork others; else each process is a fresh one."""
        return self.threads is not None


_DOING = {"import": "importing", "build": "building", "trace": "compiling", "kernels": "compiling"}
"""Phases in words, for a run that is one of several: which one does it is told as well."""


class Conduct(Protocol):
    """What a run does with its target, where that is not to make its calls once."""

    name: str
    """What its progress is told of."""

    def compiling(self, state: RunState) -> AbstractContextManager[dynamo.CompileCalls]:
        """Inside, torch.compile makes what this run is about."""
        ...

    def make(self, state: RunState, climb: Callable[[], Answered], names: Mapping[str, Any]) -> None:
        """Do it, with inputs that `climb` gives anew each time, and the names of the user's file."""
        ...


@dataclass
class RunState:
    """What one run knows so far."""

    job: Job
    recorder: dynamo.Recorder
    sources: importing.Sources
    pid: int
    phase: str = "import"
    phases: dict[str, float] = field(default_factory=dict)
    rung: Rung | None = None
    inputs_line: int | None = None
    calls: list[Call] = field(default_factory=list)
    planned: int = 0
    grad: bool | None = None
    training: bool | None = None
    fake: bool = False
    device: Device | None = None
    """Tier kernels: what they are for, the one that was asked for or found."""
    generation: Generation | None = None
    """Tier kernels: what generates them."""
    operators: OperatorPaths | None = None
    """What writes down their operators' paths, where that is asked for."""
    assembled: dict[str, Assembled] = field(default_factory=dict)
    asked: dynamo.CompileCalls = field(default_factory=dynamo.CompileCalls)
    """What each torch.compile of the user's asked for."""
    failures: list[Failure] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    json: GrowingJson = field(default_factory=GrowingJson)
    progress_identity: tuple[int, int] | None = None
    progress_at: float = 0.0
    frame_count: int = 0
    """Frames that Dynamo has begun with."""
    conduct: Conduct | None = None
    merged: Report | None = None
    """Tier measured: what the process of one configuration has learnt of the target."""
    measured: Measured | None = None
    stopped: bool = False
    """Whether a limit was reached: what is raised from then on is an echo of that."""

    @contextlib.contextmanager
    def step(self, phase: str, detail: str, location: Location | None = None) -> Iterator[None]:
        """Announce a phase, time it, and keep its name for the failure that may come."""
        self.phase = phase
        self.tell(phase, detail, location.path if location else None, location.line if location else None)
        start = time.perf_counter()
        try:
            yield
        finally:
            self.phases[phase] = self.phases.get(phase, 0.0) + time.perf_counter() - start

    def frame_started(self, count: int, path: str, line: int) -> None:
        """Tell that Dynamo begins with a frame; at most ten times a second."""
        self.frame_count = count
        now = time.monotonic()
        if now - self.progress_at >= _PROGRESS_EVERY:
            self.progress_at = now
            self.line_reached(path, line)

    def line_reached(self, path: str, line: int) -> None:
        """Tell which line is being traced; the recorder has seen to it that this is not often."""
        detail = f"frame {self.frame_count}, {os.path.basename(path)}:{line}"
        self.tell("trace", detail, path, line, self.frame_count)

    def tell(
        self, phase: str, detail: str, path: str | None, line: int | None, count: int | None = None
    ) -> None:
        """Send progress, if the pipe is still ours: its number may by now be a file of the user's."""
        if getpid() != self.pid:
            return
        if self.conduct is not None and phase in _DOING:
            what = f"{os.path.basename(path)}:{line}" if phase == "trace" and path else detail
            detail = f"{self.conduct.name}: {_DOING[phase]} {what}"
        message = Progress(self.job.request.id, phase, detail[:200], path, line, count)
        with contextlib.suppress(OSError):
            if identity(self.job.progress) == self.progress_identity:
                _write(self.job.progress, wire.frame(wire.dump(encode(message))))

    def report(self) -> Report:
        """Put together what was learnt."""
        request = self.job.request
        parts, generated = self.recorder.parts(), self.generation
        lost = [problem for one in (generated, self.operators) if one is not None for problem in one.problems]
        inputs = None
        if self.rung is not None:
            inputs = Inputs(
                self.rung,
                request.target.path,
                self.inputs_line,
                tuple(self.calls),
                grad=self.grad,
                training=self.training,
                fake=self.fake,
            )
        target = request.target
        made = Report(
            versions=dynamo.versions(),
            target=TargetRef(target.path, target.name, target.line, target.kind),
            tier=request.tier,
            generation=request.generation,
            device=self.device.key if self.device else "cpu",
            target_device=self.device,
            generated=() if generated is None else tuple(generated.graphs),
            operators=() if self.operators is None else tuple(self.operators.paths),
            assembled=dict(self.assembled),
            inputs=inputs,
            environment=dynamo.environment(),
            frames=parts.frames,
            compiles=parts.compiles,
            breaks=parts.breaks,
            recompiles=parts.recompiles,
            not_compiled=parts.not_compiled,
            failures=(*parts.failures, *self.failures),
            notes=(*self.sources.notes, *asked_notes(self.asked, request.roots), *self.notes),
            problems=(*parts.problems, *lost, *self.problems),
            phases=dict(self.phases),
            roots=request.roots,
            files=dict(self.sources.files),
            texts={**parts.texts, **(generated.texts if generated else {})},
            measured=self.measured,
        )
        return made if self.merged is None else _with_what_was_measured(self.merged, made)


def _with_what_was_measured(learnt: Report, made: Report) -> Report:
    """What one configuration's process has learnt of the target, in the report of the whole benchmark."""
    return replace(
        learnt,
        tier=made.tier,
        measured=made.measured,
        failures=(*learnt.failures, *made.failures),
        notes=tuple(dict.fromkeys((*learnt.notes, *made.notes))),
        problems=tuple(dict.fromkeys((*learnt.problems, *made.problems))),
        phases=made.phases,
    )


def identity(descriptor: int) -> tuple[int, int] | None:
    """Say which open file a descriptor is, None for a closed one."""
    try:
        status = _fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def finish(state: RunState, name: str) -> None:
    """Write down all that was learnt, for the host and for what it imports ahead."""
    state.phase = "report"
    data = state.json.dump(state.report())
    ahead = {"modules": _libraries(state.sources), "files": list(torch_api.named_files())}
    put(os.path.join(state.job.directory, "ahead.json"), wire.dump(ahead))
    put(os.path.join(state.job.directory, name), data)


def keep(state: RunState) -> None:
    """Keep what is known so far for the host, should this run end without a word."""
    if getpid() == state.pid and state.phase != "report":
        put(os.path.join(state.job.directory, "partial.json"), state.json.dump(state.report()))


def _libraries(sources: importing.Sources) -> list[str]:
    """Name the installed modules that are loaded, in the order of their import."""
    found = []
    for name, module in list(sys.modules.items()):
        path = getattr(module, "__file__", None)
        if (
            isinstance(path, str)
            and not sources.is_users(path)
            and getattr(module, "__spec__", None) is not None
        ):
            found.append(name)
    return found


def put(path: str, data: bytes) -> None:
    """Put a file in place whole."""
    with _open(path + ".new", "wb") as file:
        file.write(data)
    _rename(path + ".new", path)
