"""Traces functions of an edited file by themselves, on the arguments that a live run recorded.

A function is compiled by itself, except for one that Dynamo only traces inlined: a function of ours calls that, in the
form in which a library's wrapper would. Invariant: no statement of the module runs again, and afterwards each function
has its old code.
"""

from __future__ import annotations

import gc
import linecache
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

import torch

from fuselight.adapters.torch_api.dynamo import frames, traces
from fuselight.capture import dynamo
from fuselight.capture.calls.tensors import tensors_in
from fuselight.shared.inputs.records import arguments_of
from fuselight.shared.protocol import LiveFunction, Retrace
from fuselight.shared.report import (
    Culprit,
    Failure,
    Graph,
    Location,
    NotCompiled,
    NotCompiledKind,
    Outcome,
    Problem,
    Report,
    text_key,
)
from fuselight.shared.report.failure import first_line
from fuselight.worker.child import child
from fuselight.worker.child.originals import getpid
from fuselight.worker.child.recorded_arguments import FunctionKey, RecordedCall, fresh_values, function_key
from fuselight.worker.child.repeated_layers import RepeatedLayers, find_repeats, without_repeats
from fuselight.worker.child.state import RunState
from fuselight.worker.live.edited_text import (
    FunctionText,
    NotApplicableError,
    ParsedFile,
    check_code,
    check_replaceable,
    moved,
    unknown_globals,
    uses_global,
)

_FULLGRAPH = "fullgraph"
"""Kind of the failures that are graph breaks, which need no confirmation."""
_GENERATOR = 0x20
"""`inspect.CO_GENERATOR`."""
_EARLY_EVERY = 0.1
"""Seconds between two early reports: a loop that breaks has a frame for each round."""


class RefusedError(Exception):
    """Nothing of a request can be traced. `reason` is of `RETRACE_REASONS`."""

    def __init__(self, reason: str, failure: Failure) -> None:
        super().__init__(reason)
        self.reason = reason
        self.failure = failure


class TracedWholeError(BaseException):
    """Raised in the backend once a graph holds all that there is left to trace."""


@dataclass
class TraceMode:
    """How Dynamo traced one function in the run."""

    is_inlined: bool
    fullgraph: bool
    config: dict[str, Any]
    symbolic: dict[str, tuple[int, ...]]


@dataclass
class LiveRecording:
    """Everything that a live run recorded for later traces."""

    texts: dict[str, ParsedFile] = field(default_factory=dict)
    """Files as they ran, by path."""
    traced: dict[FunctionKey, TraceMode] = field(default_factory=dict)
    calls: dict[FunctionKey, list[RecordedCall]] = field(default_factory=dict)
    unkept: dict[FunctionKey, str] = field(default_factory=dict)
    alive: dict[FunctionKey, list[FunctionType]] = field(default_factory=dict)
    """All function objects of the workspace's files."""

    repeats: tuple[RepeatedLayers, ...] = ()
    """Layers of the recorded modules that need not all be traced."""

    def heard(self, function: traces.TracedFunction) -> None:
        """Dynamo begins to trace a function."""
        key = function_key(function.code)
        known = self.traced.get(key)
        if known is None:
            self.traced[key] = TraceMode(
                function.is_inlined, function.fullgraph, dict(function.config), dict(function.symbolic)
            )
        elif not function.is_inlined or function.symbolic:
            known.symbolic.update(function.symbolic)

    def find_functions(self) -> None:
        """Find the function objects of the files in `texts`."""
        for value in gc.get_objects():
            if type(value) is FunctionType and value.__code__.co_filename in self.texts:
                self.alive.setdefault(function_key(value.__code__), []).append(value)

    def find_repeats(self) -> None:
        """Find the repeated layers of the modules that are arguments."""
        values = (value for calls in self.calls.values() for call in calls for value in call.values.values())
        self.repeats = find_repeats(value for value in values if isinstance(value, torch.nn.Module))

    def functions(self) -> Iterator[LiveFunction]:
        """Each function of the workspace that Dynamo traced."""
        for path, text in self.texts.items():
            for name, functions in text.functions.items():
                for function in functions:
                    key = (path, function.node.name, function.first)
                    if key in self.traced:
                        calls = len(self.calls.get(key, ()))
                        why = self.unkept.get(key, "it is not called without torch.compile")
                        yield LiveFunction(path, name, calls, "" if calls else why)


@dataclass
class _Edit:
    """The edited text of one file, put in the place of the text that ran."""

    recording: LiveRecording
    old: ParsedFile
    new: ParsedFile
    redirect: bool
    codes: dict[FunctionKey, CodeType] = field(default_factory=dict)
    """New code, by the key of the old."""
    refused: dict[FunctionKey, NotApplicableError] = field(default_factory=dict)
    _undo: list[tuple[FunctionType, CodeType]] = field(default_factory=list)

    def apply(self) -> None:
        """Give each function of the file its new code."""
        edited: list[tuple[FunctionKey, FunctionText]] = []
        for name, olds in self.old.functions.items():
            news = self.new.functions.get(name, ())
            for old, new in zip(olds, news, strict=False) if len(olds) == len(news) else ():
                edited += self._compare(old, new)
        compiled = self.new.compiled((new for _, new in edited), redirect=self.redirect)
        for key, new in edited:
            if id(new.node) in compiled:
                self.codes[key] = compiled[id(new.node)]
        for key, code in self.codes.items():
            for function in self.recording.alive.get(key, ()):
                if function.__code__.co_freevars == code.co_freevars:
                    self._undo.append((function, function.__code__))
                    function.__code__ = code

    def _compare(self, old: FunctionText, new: FunctionText) -> Iterator[tuple[FunctionKey, FunctionText]]:
        key = (self.old.path, old.node.name, old.first)
        if self.old.source(old) != self.new.source(new):
            try:
                check_replaceable(old, new)
            except NotApplicableError as why:
                self.refused[key] = why
            else:
                yield key, new
        elif old.first != new.first:
            code = self._ran(key)
            if code is not None:
                self.codes[key] = moved(code, new.first - old.first)

    def _ran(self, key: FunctionKey) -> CodeType | None:
        calls, alive = self.recording.calls.get(key), self.recording.alive.get(key)
        return calls[0].code if calls else alive[0].__code__ if alive else None

    def undo(self) -> None:
        for function, code in reversed(self._undo):
            function.__code__ = code


def retrace(
    request: Retrace,
    recording: LiveRecording,
    state: RunState,
    on_break: Callable[[Report], None] | None = None,
) -> Report:
    """Trace the functions of a request. Raises RefusedError.

    `on_break` gets the report so far when the compile of a frame with a graph break has ended. From then on torch keeps
    the break: a frame that it traces again without it, or leaves to eager mode, does not end its compile so.

    Of layers that repeat others, two are traced and not all: the answer is awaited while the user types. A failure may
    come from the layers that are left out, so all are traced before it is reported.
    """
    start = time.perf_counter()
    ran = recording.texts.get(request.path)
    if ran is None:
        raise _refused("not_traced", f"no function of {request.path} was traced")
    try:
        new = ParsedFile(request.text, request.path)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise _syntax(error, request.path) from None
    edit = _Edit(recording, ran, new, state.sources.redirect)
    before = linecache.cache.get(request.path)
    lines = request.text.splitlines(keepends=True)
    linecache.cache[request.path] = (len(request.text), None, lines, request.path)
    try:
        edit.apply()
        with without_repeats(recording.repeats):
            run_state = _trace(request, edit, state, on_break)
        if recording.repeats and any(failure.kind != _FULLGRAPH for failure in run_state.failures):
            traces.forget_compiled()  # the code that is left may need each layer
            run_state = _trace(request, edit, state)
    finally:
        edit.undo()
        if before is not None:
            linecache.cache[request.path] = before
    return replace(run_state.report_so_far(), phases={"retrace": time.perf_counter() - start})


def _trace(
    request: Retrace, edit: _Edit, state: RunState, on_break: Callable[[Report], None] | None = None
) -> RunState:
    """Trace each function of a request. Raises RefusedError if none can be traced."""
    recorder = _TraceRecorder(state.job.request.roots)
    run_state = _state_of(state, request, recorder)
    if on_break is not None:
        recorder.on_break = lambda: on_break(run_state.report_so_far())
    refusals = []
    with dynamo.capture_only(recorder.capture) as run_state.asked, recorder:
        for name in dict.fromkeys(request.functions):
            try:
                _trace_function(run_state, recorder, edit, name)
            except NotApplicableError as why:
                refusals.append(why)
                run_state.problems.append(Problem("retrace", name, f"{why.reason}: {why}"))
    if refusals and len(refusals) == len(set(request.functions)):
        raise _refused(refusals[0].reason, str(refusals[0]))
    return run_state


def _trace_function(state: RunState, recorder: _TraceRecorder, edit: _Edit, name: str) -> None:
    """Trace each function of this name. Raises NotApplicableError if there is none."""
    olds = edit.old.functions.get(name, [])
    keys = [(edit.old.path, text.node.name, text.first) for text in olds]
    known = [key for key in keys if key in edit.recording.traced and key in edit.recording.calls]
    if not known:
        raise NotApplicableError("not_traced", "the last run did not trace it, or has no arguments of it")
    if len(edit.new.functions.get(name, ())) != len(olds):
        raise NotApplicableError("missing", "the text has no such function, or another number of them")
    for key in known:
        if key in edit.refused:
            raise edit.refused[key]
    for key in known:
        before = _finding_count(state)
        for number, call in enumerate(edit.recording.calls[key]):
            if (
                number == 0 or _finding_count(state) == before
            ):  # a later call is for what the first does not reach
                _trace_call(state, recorder, edit, key, call)


def _finding_count(state: RunState) -> int:
    parts = state.recorder.parts()
    return len(parts.breaks) + len(parts.not_compiled) + len(state.failures)


def _trace_call(
    state: RunState, recorder: _TraceRecorder, edit: _Edit, key: FunctionKey, call: RecordedCall
) -> None:
    """Trace one recorded call, with those sizes symbolic that the run had made symbolic.

    It is a first call for torch, which would fix each size. The trace ends with its last graph, as torch takes as long
    again for the code and the guards. A call with `mark_dynamic` continues, since torch checks that promise with the
    guards.
    """
    traced = edit.recording.traced[key]
    values = fresh_values(call)
    function = _function(edit, key, call, values)
    args, kwargs = arguments_of(function.__code__, values, bound=False)
    is_marked = any(map(traces.is_marked_dynamic, tensors_in([args, kwargs])))
    for name, dimensions in traced.symbolic.items():
        if isinstance(values.get(name), torch.Tensor):
            traces.mark_dynamic(values[name], dimensions)
    owner = args[0] if args else None
    if call.training is not None and isinstance(owner, torch.nn.Module) and owner.training != call.training:
        owner.train(call.training)
    called: Any = _caller(function) if _needs_caller(function, traced, args, kwargs) else function
    # torch checks what `mark_dynamic` promises when it makes the guards, after the trace.
    recorder.begin(None if is_marked else called.__code__)
    config = {**traced.config, **({"automatic_dynamic_shapes": False} if traced.is_inlined else {})}
    try:
        with traces.with_dynamo_config(config), call.modes.active(), recorder.call(call.index or 0):
            compiled: Callable[..., Any] = torch.compile(called, fullgraph=traced.fullgraph)
            compiled(*args, **kwargs)
    except TracedWholeError:
        pass
    except child.StoppedError:
        raise
    except BaseException as error:  # noqa: BLE001 - user code may raise anything
        state.failures.append(child.failure_of(state, error))
    if traced.is_inlined:
        recorder.forget_empty_frames()


def _function(edit: _Edit, key: FunctionKey, call: RecordedCall, values: dict[str, Any]) -> FunctionType:
    """The edited function, with the closure of a recorded call. Raises NotApplicableError."""
    code = edit.codes.get(key, call.code)
    if "__class__" in code.co_freevars and "__class__" not in values:
        values.update(_own_class(edit, key, call))
    check_code(call.code, code, values)
    for name in unknown_globals(code, call.names):
        if name in edit.new.bound and uses_global(code, name):
            raise NotApplicableError(
                "module", f"`{name}` is defined by a line of the file that did not run yet"
            )
    return FunctionType(
        code, call.names, None, None, tuple(CellType(values[name]) for name in code.co_freevars)
    )


def _needs_caller(
    function: FunctionType, traced: TraceMode, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> bool:
    """Whether Dynamo traces a function only if another one calls it: a generator, or one that is given no tensor."""
    if function.__code__.co_flags & _GENERATOR:
        return True
    if not traced.is_inlined:
        return False
    values = (
        *args,
        *kwargs.values(),
        *(function.__globals__.get(name) for name in function.__code__.co_names),
    )
    is_torch = any(
        isinstance(value, ModuleType) and value.__name__.partition(".")[0] == "torch" for value in values
    )
    return (
        not is_torch
        and not tensors_in(values)
        and not any(isinstance(value, torch.nn.Module) for value in values)
    )


def _caller(function: FunctionType) -> Any:
    """A function that calls `function`, in the form that `dynamo.wrappers` takes for that function itself."""
    if function.__code__.co_flags & _GENERATOR:

        def exhaust(*args: Any, **kwargs: Any) -> Any:
            return list(function(*args, **kwargs))

        return exhaust

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


def _own_class(edit: _Edit, key: FunctionKey, call: RecordedCall) -> dict[str, Any]:
    """The class whose body defines a method, which `super()` needs, if the method did not use it before."""
    first = call.values.get(call.code.co_varnames[0]) if call.code.co_argcount else None
    kind = first if isinstance(first, type) else type(first)
    for base in kind.__mro__:
        for function in edit.recording.alive.get(key, ()):
            if vars(base).get(function.__name__) is function:
                return {"__class__": base}
    return {}


class _TraceRecorder(dynamo.Recorder):
    """Records traces, and is the backend that ends each once nothing is left to trace.

    The code and the guards that torch makes after a trace, and the run of the graph, take as long as the trace itself.
    """

    def __init__(self, roots: tuple[str, ...]) -> None:
        super().__init__(roots=roots)
        self.on_break: Callable[[], None] | None = None
        """Called when the compile of a frame with a graph break has ended."""
        self._told = 0
        """Breaks that it was called for."""
        self._told_at = -_EARLY_EVERY
        self._root: CodeType | None = None
        self._begun: list[tuple[CodeType, int]] = []
        self._before: tuple[int, frozenset[NotCompiled]] = (0, frozenset())

    def begin(self, root: CodeType | None) -> None:
        """A trace of `root` begins; None: it must not be ended."""
        self._root = root
        self._before = len(self._breaks), frozenset(self._frames.refused())

    def forget_empty_frames(self) -> None:
        """Drop the refusals of functions without tensors if nothing broke: where they are inlined there are none."""
        breaks, before = self._before
        if len(self._breaks) == breaks:
            for uncompiled_code in self._frames.refused():
                if uncompiled_code.kind is NotCompiledKind.NO_TENSORS and uncompiled_code not in before:
                    self._frames.forget(uncompiled_code)

    def compile_started(self, code: CodeType, f_locals: Mapping[str, object], compile_id: str) -> None:
        """As in Recorder."""
        self._begun.append((frames.original_code(code), len(self._breaks)))
        super().compile_started(code, f_locals, compile_id)

    def compile_ended(self, result: object, error: BaseException | None, seconds: float) -> None:
        """As in Recorder; a trace that was ended here is a compile like any other."""
        self._begun.pop()
        ended = isinstance(error, TracedWholeError)
        super().compile_ended(_COMPILED if ended else result, None if ended else error, seconds)
        self._tell_early()

    def _tell_early(self) -> None:
        """Call `on_break`, if the compile that has just ended left a break that torch keeps."""
        if self.on_break is None or len(self._breaks) == self._told or not self._compiles:
            return
        newest, now = self._compiles[-1], time.monotonic()
        is_kept = newest.id == self._breaks[-1].compile_id and newest.outcome in _KEPT
        if is_kept and now >= self._told_at + _EARLY_EVERY:
            self._told, self._told_at = len(self._breaks), now
            self.on_break()

    def graph_captured(self, output_graph: Any, module: torch.fx.GraphModule) -> None:  # noqa: ARG002 - Listener's
        """A graph goes to the backend: its text, which nobody reads, would cost a tenth of the trace."""
        if self._running:
            calls = sum(node.op.startswith("call_") for node in module.graph.nodes)
            self._running[-1].graph = Graph(operators=calls)

    def capture(self, gm: Any, example_inputs: Sequence[Any], **asked: Any) -> Callable[..., Any]:
        """The backend."""
        code, breaks = self._begun[-1]
        if code is self._root and len(self._breaks) == breaks:
            raise TracedWholeError
        return dynamo.capture_backend(gm, example_inputs, **asked)


_KEPT = frozenset({Outcome.COMPILED, Outcome.EMPTY})
"""Outcomes of a compile after which the frame does not run in eager mode as a whole."""
_COMPILED = object()
"""Stands for the code that torch did not get to make."""


def _state_of(state: RunState, request: Retrace, recorder: dynamo.Recorder) -> RunState:
    """The state for the report of one request."""
    sources = replace(
        state.sources, notes=[], files={**state.sources.files, request.path: text_key(request.text)}
    )
    run_state = RunState(state.job, sources, getpid(), loaded=state.loaded)
    run_state.phase = "trace"
    run_state.rung, run_state.inputs_line, run_state.calls = state.rung, state.inputs_line, state.calls
    run_state.grad, run_state.training, run_state.fake = state.grad, state.training, state.fake
    run_state.recorder = recorder
    return run_state


def _refused(reason: str, why: str) -> RefusedError:
    step = "Save the file: the next run has the whole text."
    return RefusedError(reason, Failure(Culprit.USER, "retrace", why, step))


def _syntax(error: Exception, path: str) -> RefusedError:
    line = getattr(error, "lineno", None) or 1
    message = getattr(error, "msg", None) or first_line(error)
    place = Location(path, line)
    return RefusedError(
        "syntax",
        Failure(
            Culprit.USER,
            "syntax",
            f"the text does not parse: {message}",
            "Complete the line.",
            stack=(place,),
        ),
    )
