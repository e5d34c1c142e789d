"""Compiles an object of this process, makes calls of it, and reports what Dynamo did, as a test needs it.

Invariant: no compiled code of other code counts, and none is left behind. Gradients, modes, random numbers and settings
are the caller's: nothing of them is changed.
"""

from __future__ import annotations

import contextlib
import difflib
import inspect
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any

import torch

from fuselight.adapters.environment import environment, versions
from fuselight.adapters.torch_api.dynamo import targets
from fuselight.adapters.torch_api.dynamo.isolation import isolated_compiles
from fuselight.adapters.torch_api.settings import inductor_modes, inductor_options
from fuselight.adapters.torch_api.structured_log import without_other_handlers
from fuselight.capture.calls.calls import compiled_form, module_of
from fuselight.capture.calls.logged_compiles import logged_compiles
from fuselight.capture.dynamo import CompileCalls, Recorder, capture_only, failure_of, stacks
from fuselight.shared.inputs import describe_call
from fuselight.shared.report import (
    Call,
    Failure,
    FrameForecast,
    Inputs,
    Location,
    Note,
    Report,
    Rung,
    TargetRef,
    Tier,
)

_LONGEST_CALL = 400


@dataclass(frozen=True)
class ObservedCall:
    """The arguments of one call."""

    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class ObservedCalls:
    """What came of the calls."""

    report: Report
    outputs: tuple[Any, ...]
    """Of the calls that returned."""
    error: Exception | None = None
    """What the first failing call raised; no call was made after it."""


def observe(
    function: Callable[..., Any],
    calls: Sequence[ObservedCall],
    *,
    roots: tuple[str, ...],
    caller: Location,
    settings: Mapping[str, Any] | None = None,
) -> ObservedCalls:
    """Compile `function`, unless it is compiled already, and make each call.

    `settings`: arguments of torch.compile. Without a `backend` among them, graphs run as they were captured, and no
    kernels are generated. `caller`: the line that asks for this. Raises ValueError
    where settings are given for an object that is compiled already.
    """
    observation = _Observation(function, roots, caller, dict(settings or {}))
    with isolated_compiles(), without_other_handlers():
        observation.make(calls)
        return observation.result()


def start_logged(
    function: Callable[..., Any],
    calls: Sequence[ObservedCall],
    *,
    settings: Mapping[str, Any],
    log: str,
    cache: str,
) -> None:
    """Compile `function` with its own backend and make each call, with the caches and the log in these folders."""
    with logged_compiles(log, cache):
        make_calls(function, calls, settings=settings)


def make_calls(
    function: Callable[..., Any], calls: Sequence[ObservedCall], *, settings: Mapping[str, Any]
) -> None:
    """Compile `function` with its own backend and make each call, unobserved."""
    compiled = function if targets.is_compiled(function) else torch.compile(function, **settings)
    for call in calls:
        compiled(*call.args, **call.kwargs)


def without_compile(function: Any) -> Any:
    """What torch.compile was given to make `function`; itself if it is not compiled."""
    return getattr(function, "_orig_mod", None) or getattr(function, "_torchdynamo_orig_callable", function)


def compiled_name(function: object) -> str:
    """The name of a module's class, or of a function, without wrappers of torch.compile."""
    plain = without_compile(function)
    if isinstance(plain, torch.nn.Module):
        return type(plain).__qualname__
    name = getattr(plain, "__qualname__", None) or type(plain).__qualname__
    return str(name).rpartition("<locals>.")[2]


def without_compiler(trace: TracebackType | None) -> TracebackType | None:
    """The traceback of a call without the frames of torch.compile and of Fuselight."""
    kept = [entry for entry in _entries(trace) if not _is_compilers(entry.tb_frame.f_code.co_filename)]
    shown: TracebackType | None = None
    for entry in reversed(kept):
        shown = TracebackType(shown, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return shown


def _entries(trace: TracebackType | None) -> Iterator[TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _is_compilers(path: str) -> bool:
    return stacks.is_ours(path) or path.startswith(_COMPILER) or path in _MACHINERY


_TORCH = str(torch.__path__[0]) + os.sep
_COMPILER = tuple(f"{_TORCH}{name}{os.sep}" for name in ("_dynamo", "_inductor", "_functorch"))
_MACHINERY = (inspect.getfile(torch.nn.Module), f"{_TORCH}_utils_internal.py", f"{_TORCH}__init__.py")


def _check_unused(settings: Mapping[str, Any]) -> None:
    """Raise ValueError for a mode or an option that torch.compile would refuse, although nothing is generated."""
    mode, options = settings.get("mode"), settings.get("options") or {}
    if mode is not None and options:
        raise ValueError("torch.compile takes a mode or options, and not both. Leave one of them out.")
    if mode is not None and mode not in inductor_modes():
        raise ValueError(f"torch.compile has no mode `{mode}`. Its modes are {', '.join(inductor_modes())}.")
    known = inductor_options() if options else {}
    for name in options:
        attribute = str(name).replace("-", "_")
        if attribute not in known and attribute not in _BACKEND_OPTIONS:
            near = difflib.get_close_matches(attribute, known, 1)
            hint = (
                f"Did you mean `{near[0]}`?" if near else "`torch._inductor.list_options()` has all of them."
            )
            raise ValueError(f"torch.compile has no option `{name}`. {hint}")


_BACKEND_OPTIONS = frozenset({"guard_filter_fn", "use_aoti"})
"""Options that torch.compile takes out before the backend sees them."""


@dataclass
class _Observation:
    """The records of one `observe`."""

    function: Callable[..., Any]
    roots: tuple[str, ...]
    caller: Location
    settings: dict[str, Any]
    calls: list[Call] = field(default_factory=list)
    outputs: list[Any] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    notes: tuple[Note, ...] = ()
    forecasts: tuple[FrameForecast, ...] = ()
    asked: CompileCalls = field(default_factory=CompileCalls)
    error: Exception | None = None
    grad: bool = False
    training: bool | None = None
    phases: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.recorder = Recorder(roots=self.roots, facts=True)

    def make(self, calls: Sequence[ObservedCall]) -> None:
        """Make the calls, up to one that fails."""
        module = module_of(self.function)
        self.grad = torch.is_grad_enabled()
        self.training = module.training if module is not None else None
        with self._compiling(), self.recorder:
            compiled = self._compiled()
            self.recorder.inspect_target(self.function)
            for index, call in enumerate(calls):
                if not self._call(compiled, index, call):
                    return
            with self._phase("forecast"):
                self.forecasts = self.recorder.forecasts()

    @contextlib.contextmanager
    def _compiling(self) -> Iterator[None]:
        if self.settings.get("backend") is not None:
            yield
            return
        with capture_only() as self.asked:
            yield

    def _compiled(self) -> Callable[..., Any]:
        if not self.settings:
            compiled, self.notes = compiled_form(
                self.function, by_source=False, dynamic=None, roots=self.roots
            )
            return compiled
        if targets.is_compiled(self.function):
            names = ", ".join(f"`{name}`" for name in self.settings)
            raise ValueError(
                f"`{compiled_name(self.function)}` is compiled already, so {names} would have no effect. "
                "Pass the object before torch.compile, or leave the settings out."
            )
        if self.settings.get("backend") is None:
            _check_unused(self.settings)
        function: Callable[..., Any] = torch.compile(self.function, **self.settings)
        return function

    def _call(self, compiled: Callable[..., Any], index: int, call: ObservedCall) -> bool:
        text = describe_call(compiled_name(self.function), call.args, dict(call.kwargs), limit=_LONGEST_CALL)
        start = time.perf_counter()
        try:
            with self.recorder.call(index), self._phase("call"):
                self.outputs.append(compiled(*call.args, **call.kwargs))
        except Exception as error:  # noqa: BLE001 - user code may raise anything
            self.error = error
            self.failures.append(
                failure_of(error, roots=self.roots, call=index, phase="call", nodes=self.recorder.nodes)
            )
        self.calls.append(Call(index, text, self.caller, time.perf_counter() - start))
        return self.error is None

    @contextlib.contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.phases[name] = self.phases.get(name, 0.0) + time.perf_counter() - start

    def result(self) -> ObservedCalls:
        """Return the report and the outputs."""
        parts = self.recorder.parts()
        fullgraph = self.settings.get("fullgraph", self.asked.fullgraph)
        report = Report(
            versions=versions(),
            target=_target(self.function, self.caller),
            tier=Tier.CAPTURE,
            generation=0,
            inputs=Inputs(
                Rung.CALLER,
                self.caller.path,
                self.caller.line,
                tuple(self.calls),
                grad=self.grad,
                training=self.training,
            ),
            environment=environment(),
            frames=parts.frames,
            compiles=parts.compiles,
            breaks=parts.breaks,
            recompiles=parts.recompiles,
            not_compiled=parts.not_compiled,
            unseen=parts.unseen,
            failures=(*parts.failures, *self.failures),
            notes=self.notes,
            problems=parts.problems,
            phases=self.phases,
            roots=self.roots,
            fullgraph=fullgraph,
            static_compiles=self.asked.static,
            texts=parts.texts,
            facts=self.recorder.facts(),
            forecasts=self.forecasts,
        )
        return ObservedCalls(report, tuple(self.outputs), self.error)


def _target(function: Callable[..., Any], caller: Location) -> TargetRef:
    """What was called, at its `def` or `class` line; a class of a library is at the line of the call."""
    module = module_of(function)
    kind = "module" if module is not None else "function"
    code = targets.code_of(function)
    name = compiled_name(function)
    if code is None or code.co_filename.startswith("<"):
        return TargetRef(caller.path, name, caller.line, kind)
    return TargetRef(code.co_filename, name, _line(function, code.co_firstlineno), kind)


def _line(function: object, first: int) -> int:
    plain = without_compile(function)
    if not isinstance(plain, torch.nn.Module):
        return first
    try:
        return inspect.getsourcelines(type(plain))[1]
    except (OSError, TypeError):
        return first
