"""State of one run: its request, its records and its report.

Invariant: a file appears complete or not at all, and is opened by path: user code may have closed every descriptor, and
may end the process at any time. A process that user code forked writes nothing.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import Any

from fuselight.adapters.torch_api.distributed.graph_nodes import NodeRuns
from fuselight.adapters.torch_api.dynamo import frame_text_cache
from fuselight.capture import dynamo
from fuselight.capture.calls import importing
from fuselight.capture.calls.calls import Prepared, asked_notes, compiled_form
from fuselight.shared import wire
from fuselight.shared.incremental_json import GrowingJson
from fuselight.shared.measurement_plans import MeasurePlan
from fuselight.shared.own_estimates import with_own_estimates
from fuselight.shared.protocol import (
    AccuracyRequest,
    CaptureRequest,
    GraphsRequest,
    MeasureRequest,
    RunRequest,
    ScriptRequest,
    VerifyRequest,
)
from fuselight.shared.report import (
    Call,
    Device,
    Environment,
    Failure,
    FrameForecast,
    Inputs,
    Location,
    Note,
    Problem,
    Report,
    Rung,
    TargetRef,
)
from fuselight.worker.child.compiled_roots import CompiledRoots
from fuselight.worker.child.kernel_launches import KernelLaunches
from fuselight.worker.child.originals import Loaded, Originals, getpid
from fuselight.worker.child.progress import ProgressPipe
from fuselight.worker.child.reads import ReadRecorder
from fuselight.worker.child.recorded_calls import RecordedCalls
from fuselight.worker.child.request_results import RequestResult

# Bound before any user code runs.
_rename, _open = os.replace, open
_perf_counter = time.perf_counter


@dataclass(frozen=True)
class ChildJob:
    """The input of one run."""

    request: RunRequest
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
    requests: int | None = None
    """Descriptor of the pipe from which a live run reads what it is asked; None for other runs."""
    kept_texts: str = ""
    """Folder of the texts that all processes of a measurement run; empty for other runs."""
    loaded: Loaded | None = None
    """What the host had loaded before it forked; None for a fresh process."""

    @property
    def plan(self) -> MeasurePlan:
        """What to measure, for a benchmark."""
        return self.request.plan if isinstance(self.request, MeasureRequest) else MeasurePlan()

    @property
    def forked(self) -> bool:
        """Whether its process is a fork of the host and may fork others; otherwise each process starts fresh."""
        return self.threads is not None


def kept_folder(directory: str) -> str:
    """Where the processes of a measurement keep the texts that they run, beside the folder of each."""
    return os.path.join(os.path.dirname(directory), "texts")


@dataclass
class RunState:
    """The records of one run."""

    job: ChildJob
    sources: importing.Sources
    pid: int
    phase: str = "import"
    phases: dict[str, float] = field(default_factory=dict)
    rung: Rung | None = None
    inputs_line: int | None = None
    inputs_path: str = ""
    """The program that gave the inputs; empty where they come from the target's file."""
    calls: list[Call] = field(default_factory=list)
    grad: bool | None = None
    training: bool | None = None
    fake: bool = False
    device: Device | None = None
    """Tier kernels: what they are for, the one that was asked for or found."""
    result: RequestResult = field(default_factory=RequestResult)
    """What this kind of request adds to the report."""
    asked: dynamo.CompileCalls = field(default_factory=dynamo.CompileCalls)
    """What each torch.compile of the user's asked for."""
    failures: list[Failure] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    json: GrowingJson = field(default_factory=GrowingJson)
    forecasts: tuple[FrameForecast, ...] = ()
    aot: dynamo.AotCapture | None = None
    """The backend of a capture."""
    node_runs: NodeRuns | None = None
    """Runs captured graphs node by node, if the run records the collectives of a rank."""
    roots: CompiledRoots = field(default_factory=CompiledRoots)
    """What the user's code has given to torch.compile."""
    stopped: bool = False
    """Whether a limit was reached: every later exception is a consequence of that."""
    loaded: Loaded = field(default_factory=Loaded)
    """Modules that were loaded before it, and their originals."""
    around_main: Callable[[], contextlib.AbstractContextManager[None]] = contextlib.nullcontext
    """What is in force while the whole `__main__` block runs."""
    environment: Environment | None = None
    """As of the first partial report: to read it takes as long as all else of one."""
    reads: ReadRecorder | None = None
    """Records what the run reads, if requested."""
    progress: ProgressPipe = field(init=False)
    recorded: RecordedCalls = field(init=False)
    """Calls that the `__main__` block made, for runs that need inputs without it."""
    recorder: dynamo.Recorder = field(init=False)
    kernel_launches: KernelLaunches = field(init=False)
    """What is known of launches of the user's Triton kernels, which are computed on the CPU where there is no GPU."""

    @property
    def originals(self) -> Originals:
        """The functions of Python's own, which user code may replace."""
        return self.loaded.originals

    @property
    def call_index(self) -> int | None:
        """The index of the call that is being made."""
        return self.calls[-1].index if self.calls else None

    def __post_init__(self) -> None:
        request = self.job.request
        self.progress = ProgressPipe(self.job.progress, request.id, self.originals, self.pid)
        self.recorded = RecordedCalls(request.roots, self.roots, self.pid)
        self.kernel_launches = KernelLaunches(request.roots)
        self.recorder = dynamo.Recorder(
            roots=request.roots,
            on_call=self.recorded.record_call,
            on_frame=self.progress.frame_started,
            on_line=self.progress.line_reached,
            on_compiled=lambda: keep(self),
            compiled_at=self._compiled_at,
            # A later fix is written for what is known of the text with the fixes before it.
            facts=(isinstance(request, CaptureRequest) and request.trial is None)
            or (isinstance(request, VerifyRequest) and not request.cases),
        )

    def _compiled_at(self, code: CodeType, f_locals: Mapping[str, object]) -> Location | None:
        """The line that passed what a frame is a call of to torch.compile."""
        root = self.roots.of_frame(code, f_locals)
        return root.location if root is not None else None

    @contextlib.contextmanager
    def step(self, phase: str, detail: str, location: Location | None = None) -> Iterator[None]:
        """Announce a phase, time it, and keep its name for the failure that may come."""
        self.phase = phase
        self.progress.tell(
            phase, detail, location.path if location else None, location.line if location else None
        )
        start = _perf_counter()
        try:
            yield
        finally:
            self.phases[phase] = self.phases.get(phase, 0.0) + _perf_counter() - start

    def compiled_form(self, prepared: Prepared) -> Callable[..., Any]:
        """Return what to call for a call of the target, and add what it is to the notes."""
        request, dynamic = self.job.request, prepared.options.dynamic
        function, notes = compiled_form(
            prepared.function, by_source=request.target.compiled, dynamic=dynamic, roots=request.roots
        )
        self.notes.extend(note for note in notes if note not in self.notes)
        return function

    def report_so_far(self, environment: Environment | None = None) -> Report:
        """Return the report of what was recorded so far; `environment`, if it was read already."""
        request = self.job.request
        parts = self.result.recorded or self.recorder.parts()
        inputs = None
        if self.rung is not None:
            inputs = Inputs(
                self.rung,
                self.inputs_path or request.target.path,
                self.inputs_line,
                tuple(self.calls),
                grad=self.grad,
                training=self.training,
                fake=self.fake,
            )
        target = request.target
        report = Report(
            versions=dynamo.versions(),
            target=TargetRef(target.path, target.name, target.line, target.kind),
            tier=request.tier,
            generation=request.generation,
            device=self.device.key if self.device else "cpu",
            target_device=self.device,
            inputs=inputs,
            environment=environment or dynamo.environment(),
            frames=parts.frames,
            compiles=parts.compiles,
            breaks=parts.breaks,
            recompiles=parts.recompiles,
            not_compiled=parts.not_compiled,
            unseen=parts.unseen,
            failures=(*parts.failures, *self.failures),
            notes=(
                *self.sources.notes,
                *asked_notes(self.asked, request.roots),
                *self.kernel_launches.notes,
                *self.notes,
            ),
            problems=(
                *parts.problems,
                *self.result.problems,
                *self.problems,
                *self.kernel_launches.problems,
                *self.kernel_launches.own.problems,
                *(self.aot.problems if self.aot is not None else ()),
            ),
            phases=dict(self.phases),
            roots=request.roots,
            files=dict(self.sources.files),
            fullgraph=self.asked.fullgraph,
            static_compiles=self.asked.static,
            kernel_faults=tuple(self.kernel_launches.faults),
            own_kernels=tuple(self.kernel_launches.own.kernels),
            own_kernels_device=self.kernel_launches.own.device,
            kernel_mismatches=tuple(self.kernel_launches.mismatches),
            tuning_changes=tuple(self.kernel_launches.tunings),
            address_checks=tuple(self.kernel_launches.checks),
            varied_calls=tuple(self.kernel_launches.varied),
            recorded=self.recorded.calls,
            texts={**parts.texts, **self.result.texts},
        )
        return self.result.complete_report(report)


def finish(state: RunState) -> None:
    """Write the whole report, and the modules that the host may preload."""
    state.phase = "report"
    whole = replace(state.report_so_far(), facts=state.recorder.facts(), forecasts=state.forecasts)
    whole = replace(whole, generated=with_own_estimates(whole.generated, whole.own_kernels))
    if state.reads is not None:
        further = (*state.loaded.outside, *state.loaded.torch_files)
        whole = replace(whole, reads=state.reads.result(further, state.sources.files))
    data = state.json.dump(state.result.final(whole))
    put_ahead(state)
    put(os.path.join(state.job.directory, "answer.json"), data)


def put_ahead(state: RunState) -> None:
    """Write what the host may preload: installed modules that were imported here and in `state.result.libraries`.

    Of a comparison of results nothing: a fix was no longer verified in a host that had what one had imported.
    """
    if isinstance(state.job.request, (AccuracyRequest, GraphsRequest, ScriptRequest)):
        return
    modules = dict.fromkeys([*_libraries(state), *state.result.libraries])
    ahead = {"modules": list(modules), "files": list(frame_text_cache.named_files())}
    put(os.path.join(state.job.directory, "ahead.json"), wire.dump(ahead))


def keep(state: RunState) -> None:
    """Write the report so far, for the case that this run ends without one."""
    if getpid() != state.pid or state.phase == "report":
        return
    replaced = state.originals.restore()
    try:
        state.environment = state.environment or dynamo.environment()
        report = state.report_so_far(state.environment)
        put(os.path.join(state.job.directory, "partial.json"), state.json.dump(report))
    finally:
        state.originals.put_back(replaced)


_NEVER_AHEAD = ("multiprocessing.", "torch.testing.")
"""What begins so is never preloaded: in a host that has it, each later run looks as if it had started processes."""


def _libraries(state: RunState) -> list[str]:
    """Name the installed modules that the run has loaded, in the order of their import."""
    # From the end: the rest are the host's, and to read them is to copy them.
    new = list(itertools.takewhile(lambda name: name != state.loaded.last, reversed(sys.modules)))
    libraries = []
    for name in reversed(new):
        is_known = name in state.loaded.modules or name.startswith(_NEVER_AHEAD)
        module = None if is_known else sys.modules.get(name)
        path = getattr(module, "__file__", None)
        if (
            isinstance(path, str)
            and not state.sources.is_users(path)
            and getattr(module, "__spec__", None) is not None
        ):
            libraries.append(name)
    return libraries


def put(path: str, data: bytes) -> None:
    """Write a file, which appears complete or not at all."""
    with _open(path + ".new", "wb") as file:
        file.write(data)
    _rename(path + ".new", path)
