"""State of one run: its request, its records, its progress messages and its report.

Invariant: a file appears complete or not at all, and is opened by path: user code may have closed every descriptor, and
may end the process at any time. A process that user code forked sends and writes nothing. User code may replace any
function of Python's own: `Originals` saves them before, and looks up no builtin to restore them.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType, ModuleType
from typing import Any

from fuselight.adapters.torch_api.distributed.graph_nodes import NodeRuns
from fuselight.adapters.torch_api.dynamo import frame_text_cache, namespace_versions
from fuselight.capture import dynamo
from fuselight.capture.calls import importing
from fuselight.capture.calls.calls import Prepared, asked_notes, compiled_form
from fuselight.shared import wire
from fuselight.shared.codec import encode
from fuselight.shared.incremental_json import GrowingJson
from fuselight.shared.inputs.records import MOST_CALLS, ConstructorCalls, call_text, is_resumed
from fuselight.shared.protocol import (
    CaptureRequest,
    MeasurePlan,
    MeasureRequest,
    Progress,
    RunRequest,
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
    Recorded,
    Report,
    Rung,
    TargetRef,
    is_user_file,
)
from fuselight.worker.child.compiled_roots import CompiledRoots
from fuselight.worker.child.reads import ReadRecorder, loaded_outside
from fuselight.worker.child.request_results import RequestResult
from fuselight.worker.processes.limits import SystemLimits

Replaced = list[tuple[dict[str, Any], str, Any, str]]
"""Namespace, name, the replacement, and the dotted name for a message."""

_SavedModule = tuple[str, dict[str, Any], dict[str, Any]]
"""Name, namespace, and the functions and classes in it."""
_ABSENT = object()
_FOR_MESSAGES = frozenset(
    {
        "builtins",
        "contextlib",
        "dataclasses",
        "enum",
        "functools",
        "json",
        "json.encoder",
        "os",
        "posixpath",
        "ntpath",
        "typing",
        "zlib",
    }
)
"""Modules whose functions run while a message is sent."""
_PROGRESS_EVERY = 0.1
# Bound before any user code runs, which may replace them, as tests do that mock them.
getpid, exit_now = os.getpid, os._exit
_fstat, _write, _rename, _open = os.fstat, os.write, os.replace, open
_perf_counter, _monotonic = time.perf_counter, time.monotonic
_all, _map, _is = all, map, operator.is_
_DOING = {"import": "importing", "build": "building", "trace": "compiling", "kernels": "compiling"}
"""Phases in words, for the progress of a run with a label."""


class _WatchedModules:
    """Modules whose functions and classes were saved."""

    def __init__(self, saved: Sequence[_SavedModule]) -> None:
        self._saved = saved
        self._versions = namespace_versions.version_reader(namespace for _, namespace, _ in saved)
        self._intact = self._versions()
        """The version of each namespace when it last had all that was saved."""

    def changed(self) -> list[_SavedModule]:
        """Those that have something else now."""
        changed: list[_SavedModule] = []
        index = 0
        for version in self._versions():
            if version is None or version != self._intact[index]:
                _, namespace, saved = self._saved[index]
                if _all(_map(_is, _map(namespace.get, saved), saved.values())):
                    self._intact[index] = version
                else:
                    changed.append(self._saved[index])
            index += 1  # noqa: SIM113 - `enumerate` may be user code by now
        return changed


class Originals:
    """The functions and classes of the standard library's modules that are loaded."""

    def __init__(self) -> None:
        self._saved: list[_SavedModule] = [
            (name, vars(module), {key: value for key, value in vars(module).items() if callable(value)})
            for name, module in list(sys.modules.items())
            if name.partition(".")[0] in sys.stdlib_module_names and module is not None
        ]
        self._modules = {name: sys.modules[name] for name, _, _ in self._saved}
        self._modules.update(
            (name, module)
            for name, module in sys.modules.items()
            if name.partition(".")[0] in {"torch", "fuselight"}
        )
        self._saved_by_name = {saved[0]: saved for saved in self._saved}
        self._watched = _WatchedModules(self._saved)
        self._for_messages = _WatchedModules([saved for saved in self._saved if saved[0] in _FOR_MESSAGES])
        self._loaded = sys.modules
        self._version_of_loaded = namespace_versions.version_reader([sys.modules])
        self._intact = self._version_of_loaded()
        """The version of `sys.modules` when it last had all modules."""
        self._recursion_limit = sys.getrecursionlimit()
        self._limit_now, self._set_limit = sys.getrecursionlimit, sys.setrecursionlimit

    def save(self, module: str, name: str) -> None:
        """Save what a module has under a name now."""
        _, namespace, saved = self._saved_by_name[module]
        saved[name] = namespace[name]

    def restore(self, *, for_message: bool = False) -> Replaced:
        """Restore all originals, or those that a message to the host needs. Returns what user code had replaced."""
        if self._limit_now() < self._recursion_limit:
            self._set_limit(self._recursion_limit)
        replaced: Replaced = [] if for_message else self._restore_modules()
        for module, namespace, saved in (self._for_messages if for_message else self._watched).changed():
            for name, value in saved.items():
                result = namespace.get(name, _ABSENT)
                if result is not value:
                    namespace[name] = value
                    replaced.append((namespace, name, result, f"{module}.{name}"))
        return replaced

    def forget(self, removed: Iterable[str]) -> None:
        """Restore none of these modules: files of the user's have their names."""
        for name in removed:
            self._modules.pop(name, None)

    def _restore_modules(self) -> Replaced:
        """Restore the entries of `sys.modules`; those of torch and ours alone count if all are changed."""
        replaced: Replaced = []
        loaded = sys.modules
        version = self._version_of_loaded() if loaded is self._loaded else None
        if version == self._intact and version != [None]:
            return replaced
        for name, module in self._modules.items():
            actual_module = loaded.get(name, _ABSENT)
            if actual_module is not module and not _has_file(actual_module):
                loaded[name] = module
                replaced.append((loaded, name, actual_module, f'sys.modules["{name}"]'))
        if not replaced and version is not None:
            self._intact = version
        return replaced

    @staticmethod
    def put_back(replaced: Replaced) -> None:
        """Undo `restore`: user code goes on with what it had."""
        for namespace, name, original, _ in replaced:
            if original is _ABSENT:
                namespace.pop(name, None)
            else:
                namespace[name] = original


def _has_file(module: object) -> bool:
    """Whether this is a module from a file: another one of the same name, or one that was imported again."""
    return isinstance(module, ModuleType) and getattr(module, "__file__", None) is not None


def names_of(replaced: Replaced, roots: Sequence[str]) -> tuple[str, ...]:
    """Return the dotted names that user code replaced, as `builtins.len`; torch and the recorder replace some too."""
    names = []
    for *_, original, name in replaced:
        code = getattr(original, "__code__", None)
        if code is None or is_user_file(code.co_filename, roots):
            names.append(name)
    return tuple(names)


class Loaded:
    """The loaded modules, and their originals. A host reads them before its forks: in a fork, to read is to copy."""

    def __init__(self) -> None:
        self.modules = frozenset(sys.modules)
        self.last = next(reversed(sys.modules))
        """Name of the module that was imported last."""
        self.originals = Originals()
        self.outside = loaded_outside()
        self.limits = SystemLimits()
        self.torch_files = tuple(
            path
            for name in ("torch", "torch.version")
            if (path := getattr(sys.modules.get(name), "__file__", None))
        )

    @property
    def is_current(self) -> bool:
        """Whether nothing was imported since."""
        return len(sys.modules) == len(self.modules)


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
    progress_identity: tuple[int, int] | None = None
    progress_at: float = 0.0
    frame_count: int = 0
    """Frames that Dynamo has begun with."""
    label: str = ""
    """Name of the configuration, where this run is one of several processes of a benchmark."""
    forecasts: tuple[FrameForecast, ...] = ()
    recorded: dict[Recorded, None] = field(default_factory=dict)
    """Calls that the `__main__` block made, for runs that need inputs without it."""
    constructors: ConstructorCalls | None = None
    """While the `__main__` block runs: how its modules were made."""
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
    environment: Environment | None = None
    """As of the first partial report: to read it takes as long as all else of one."""
    reads: ReadRecorder | None = None
    """Records what the run reads, if requested."""
    recorder: dynamo.Recorder = field(init=False)

    @property
    def originals(self) -> Originals:
        """The functions of Python's own, which user code may replace."""
        return self.loaded.originals

    def __post_init__(self) -> None:
        self.recorder = dynamo.Recorder(
            roots=self.job.request.roots,
            on_call=self.call_compiled,
            on_frame=self.frame_started,
            on_line=self.line_reached,
            on_compiled=lambda: keep(self),
            compiled_at=self._compiled_at,
            facts=isinstance(self.job.request, CaptureRequest),
        )

    def _compiled_at(self, code: CodeType, f_locals: Mapping[str, object]) -> Location | None:
        """The line that passed what a frame is a call of to torch.compile."""
        root = self.roots.of_frame(code, f_locals)
        return root.location if root is not None else None

    @contextlib.contextmanager
    def step(self, phase: str, detail: str, location: Location | None = None) -> Iterator[None]:
        """Announce a phase, time it, and keep its name for the failure that may come."""
        self.phase = phase
        self.tell(phase, detail, location.path if location else None, location.line if location else None)
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

    def forget_calls(self) -> None:
        """Drop the recorded calls, and record none from now on."""
        self.constructors = None
        self.recorded.clear()

    def call_compiled(self, code: CodeType, f_locals: Mapping[str, object]) -> None:
        """Record a call of the program that Dynamo begins to compile."""
        if self.constructors is None or len(self.recorded) >= MOST_CALLS or getpid() != self.pid:
            return
        if is_resumed(code):
            return
        root = self.roots.of_frame(code, f_locals)
        if root is None and not is_user_file(code.co_filename, self.job.request.roots):
            return
        target, text = call_text(code, f_locals, self.constructors)
        path, line, at = code.co_filename, code.co_firstlineno, root.location if root else None
        if root is not None and at is not None:
            target = root.name
            if not is_user_file(path, self.job.request.roots):
                path, line, text = (
                    at.path,
                    at.line,
                    f"<{target}>()",
                )  # which is no notation: it is not rebuilt
        self.recorded.setdefault(Recorded(path, target, line, text, at))

    def frame_started(self, count: int, path: str, line: int) -> None:
        """Report that Dynamo has started a frame; at most ten times a second."""
        self.frame_count = count
        now = _monotonic()
        if now - self.progress_at >= _PROGRESS_EVERY:
            self.progress_at = now
            self.line_reached(path, line)

    def line_reached(self, path: str, line: int) -> None:
        """Report the line that is being traced; the recorder limits the rate."""
        detail = f"frame {self.frame_count}, {os.path.basename(path)}:{line}"
        self.tell("trace", detail, path, line, self.frame_count)

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message to the host, if the pipe is still ours."""
        with contextlib.suppress(OSError):
            if identity(self.job.progress) == self.progress_identity:
                _write(self.job.progress, wire.frame(wire.dump(message)))

    def tell(
        self,
        phase: str,
        detail: str,
        path: str | None = None,
        line: int | None = None,
        count: int | None = None,
    ) -> None:
        """Send progress, if the pipe is still ours: its number may by now be a file of the user's."""
        if getpid() != self.pid:
            return
        replaced = self.originals.restore(for_message=True)
        try:
            if self.label and phase in _DOING:
                what = f"{os.path.basename(path)}:{line}" if phase == "trace" and path else detail
                detail = f"{self.label}: {_DOING[phase]} {what}"
            self.send(encode(Progress(self.job.request.id, phase, detail[:200], path, line, count)))
        finally:
            self.originals.put_back(replaced)

    def report(self, environment: Environment | None = None) -> Report:
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
            notes=(*self.sources.notes, *asked_notes(self.asked, request.roots), *self.notes),
            problems=(*parts.problems, *self.result.problems, *self.problems),
            phases=dict(self.phases),
            roots=request.roots,
            files=dict(self.sources.files),
            fullgraph=self.asked.fullgraph,
            static_compiles=self.asked.static,
            recorded=tuple(self.recorded),
            texts={**parts.texts, **self.result.texts},
        )
        return self.result.complete(report)


def identity(descriptor: int) -> tuple[int, int] | None:
    """Say which open file a descriptor is, None for a closed one."""
    try:
        status = _fstat(descriptor)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def finish(state: RunState) -> None:
    """Write the whole report, and the modules that the host may preload."""
    state.phase = "report"
    whole = replace(state.report(), facts=state.recorder.facts(), forecasts=state.forecasts)
    if state.reads is not None:
        further = (*state.loaded.outside, *state.loaded.torch_files)
        whole = replace(whole, reads=state.reads.result(further, state.sources.files))
    data = state.json.dump(state.result.final(whole))
    put_ahead(state)
    put(os.path.join(state.job.directory, "answer.json"), data)


def put_ahead(state: RunState) -> None:
    """Write what the host may preload: installed modules that were imported here and in `state.result.libraries`."""
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
        report = state.report(state.environment)
        put(os.path.join(state.job.directory, "partial.json"), state.json.dump(report))
    finally:
        state.originals.put_back(replaced)


def _libraries(state: RunState) -> list[str]:
    """Name the installed modules that the run has loaded, in the order of their import."""
    # From the end: the rest are the host's, and to read them is to copy them.
    new = list(itertools.takewhile(lambda name: name != state.loaded.last, reversed(sys.modules)))
    libraries = []
    for name in reversed(new):
        module = None if name in state.loaded.modules else sys.modules.get(name)
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
