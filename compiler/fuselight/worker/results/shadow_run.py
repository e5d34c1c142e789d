"""The compiled calls of a running program, some of which are also made in eager mode (`fuselight run --accuracy`).

Invariant: the program goes on with what its own compiled code returns, from the state that this code leaves. The first
call of each function is compared, and others as far as comparisons take no more than their share of the time. A
function that communicates with other ranks is never compared: they would wait.
"""

from __future__ import annotations

import atexit
import collections
import contextlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from fuselight.adapters.torch_api.distributed.sequence_numbers import UNCOUNTED, sequence_numbers
from fuselight.adapters.torch_api.dynamo import targets
from fuselight.capture.calls.calls import Prepared, module_of
from fuselight.capture.calls.present_device import uses_gpu
from fuselight.capture.dynamo import stacks
from fuselight.shared.report import CallValues, ComparedCall, FirstNonFinite, Shadow, ShadowedCall
from fuselight.shared.shadow_files import ShadowPlan, write_shadow
from fuselight.worker.results.compiled_call import CompiledCall, name_of
from fuselight.worker.results.first_line import LineSearch, SwitchedBackends
from fuselight.worker.results.non_finite import inputs_with, kind_in
from fuselight.worker.results.saved_state import UnsavedError
from fuselight.worker.results.value_records import MAX_CALLS, recorded_call

_MAX_CALLS = 300
"""Compared calls that are kept."""
_LOCATE_SECONDS = 30.0
_LATER = "of later calls, as many are compared as the time for it allows"
_COMMUNICATES = "the function communicates with other ranks, which would wait"
_REDUCES = "its gradients are reduced over ranks in a backward that belongs to each forward"
_REDUCERS = ("DistributedDataParallel", "FullyShardedDataParallel", "DataParallel")
_THREADS = "it is made on another thread than the first call"


@dataclass
class _Function:
    """What is known of one function that the program compiles."""

    calls: int = 0
    compared: int = 0
    seconds: float = 0.0
    """That the last comparison took."""
    communicates: bool | None = None
    unsaved: str = ""


@dataclass
class ShadowRun:
    """Compares calls of this process."""

    plan: ShadowPlan
    clock: Callable[[], float] = time.perf_counter
    _calls: list[ShadowedCall] = field(default_factory=list)
    _functions: dict[tuple[str, object], _Function] = field(
        default_factory=lambda: collections.defaultdict(_Function)
    )
    _not_compared: collections.Counter[str] = field(default_factory=collections.Counter)
    _count: int = 0
    _seconds: float = 0.0
    _started: float | None = None
    _recorded: list[CallValues] = field(default_factory=list)
    _first: FirstNonFinite | None = None
    _problem: str = ""
    _is_inside: bool = False
    _has_searched: bool = False

    def __post_init__(self) -> None:
        self._process, self._thread = os.getpid(), threading.get_ident()
        self._backends = SwitchedBackends("", switches=True)
        self._active = contextlib.ExitStack()

    def start(self) -> None:
        """Compare from now on, until the process ends."""
        self._active.enter_context(self._backends.active())
        self._active.enter_context(targets.changed_compiled_calls(self.call))
        atexit.register(self.write)

    def stop(self) -> None:
        """Compare no more, and write what was compared."""
        self._active.close()
        atexit.unregister(self.write)
        self.write()

    def call(
        self, function: Any, compiled: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Make a call of what the program compiles, and compare it if it is due. Raises what it raises."""
        if self._is_inside or os.getpid() != self._process:
            return compiled(*args, **kwargs)
        if threading.get_ident() != self._thread:
            self._not_compared[_THREADS] += 1
            return compiled(*args, **kwargs)
        self._started = self.clock() if self._started is None else self._started
        function = targets.inside_wrapper(function)
        known = self._functions[name_of(function), _code_of(function)]
        self._count, known.calls = self._count + 1, known.calls + 1
        if known.calls == 1 and _has_reducer(function):
            known.unsaved = _REDUCES
        prepared = Prepared(function, args, kwargs, is_live=True)
        call = CompiledCall(self._count - 1, function, compiled, prepared, self.plan.roots, "")
        self._is_inside = True
        try:
            why = self._why_not(known)
            if why:
                self._not_compared[why] += 1
            else:
                self._timed(lambda: self._compare(call, known))
            returned = self._program_call(call, known)
        finally:
            self._is_inside = False
        if self._first is None:
            self._timed(lambda: self._look(call, known, returned))
        return returned

    def _why_not(self, known: _Function) -> str:
        """Why a call is not compared; empty if it is due."""
        if known.unsaved:
            return known.unsaved
        if known.communicates is None and sequence_numbers():
            return _LATER  # the first call shows whether it communicates
        if known.communicates:
            return _COMMUNICATES
        spent, elapsed = self._seconds, self.clock() - (self._started or 0.0)
        allowed = self.plan.share * elapsed
        if known.compared and (spent + known.seconds > allowed or len(self._calls) >= _MAX_CALLS):
            return _LATER
        return ""

    def _program_call(self, call: CompiledCall, known: _Function) -> Any:
        """The call for the program itself."""
        before = sequence_numbers()
        returned = call.repeated()
        if before:
            now = sequence_numbers()
            known.communicates = bool(known.communicates) or now != before or UNCOUNTED in now
        return returned

    def _timed(self, work: Callable[[], None]) -> None:
        """Do what the program would not; a failure of it is kept, and the program goes on."""
        start = self.clock()
        try:
            work()
        except Exception as error:  # noqa: BLE001 - the program goes on as if we were not there
            self._problem = f"{type(error).__name__}: {error}"
        finally:
            self._seconds += self.clock() - start

    def _compare(self, call: CompiledCall, known: _Function) -> None:
        start = self.clock()
        try:
            recorded = call.saved()
        except UnsavedError as why:
            known.unsaved = str(why)
            self._not_compared[known.unsaved] += 1
            return
        try:
            result, references = call.compare(recorded)
            known.compared += 1
            if result.is_wrong and not self._has_searched and not sequence_numbers():
                self._has_searched = True
                search = LineSearch(recorded, references, call.compiled, self._backends)
                result = replace(result, accuracy=search.located(result.accuracy, _LOCATE_SECONDS))
        finally:
            known.seconds = self.clock() - start
        self._calls.append(ShadowedCall(result, known.calls, _error_of(result)))
        if self.plan.records and len(self._recorded) < MAX_CALLS:
            self._recorded.append(
                recorded_call(result.name, known.calls, recorded, call.compiled, self.plan.roots)
            )
        self.write()

    def _look(self, call: CompiledCall, known: _Function, returned: Any) -> None:
        """Note where the first NaN or infinity of the process comes from."""
        kind = kind_in(returned)
        if kind is None:
            return
        callers = stacks.calling_frames(limit=1)
        inputs = inputs_with(call.prepared, kind)
        first = FirstNonFinite(name_of(call.function), known.calls, callers[-1] if callers else None, inputs)
        self._first = first
        if inputs or known.communicates:
            self.write()
            return
        try:
            has_some, origin = call.non_finite_in_eager(call.saved(), kind)
            self._first = replace(
                first,
                is_compiled_only=not has_some,
                eager=origin.stack if origin is not None else (),
                operator=origin.operator if origin is not None else "",
            )
        except UnsavedError:
            pass
        self.write()

    def write(self) -> None:
        """Replace the file of this process."""
        if os.getpid() != self._process:
            return
        elapsed = self.clock() - self._started if self._started is not None else 0.0
        rank = os.environ.get("RANK", "")
        shadow = Shadow(
            self._process,
            int(rank) if rank.isdecimal() else None,
            tuple(self._calls),
            self._count,
            dict(self._not_compared),
            self._seconds,
            elapsed,
            self._first,
            self._problem,
            self._backends.without_cuda_graphs,
            tuple(self._recorded),
            torch.__version__,
            torch.cuda.get_device_name() if uses_gpu() else "cpu",
        )
        with contextlib.suppress(OSError):  # a full disk loses the results, and nothing else
            write_shadow(self.plan.folder, shadow)


def _code_of(function: Any) -> object:
    """What tells functions of one name apart."""
    module = module_of(function)
    return targets.code_of(function if module is None else module)


def _has_reducer(function: Any) -> bool:
    module = module_of(function)
    return module is not None and any(type(part).__name__ in _REDUCERS for part in module.modules())


def _error_of(call: ComparedCall) -> float | None:
    errors = [tensor.absolute for tensor in call.accuracy.tensors if tensor.absolute is not None]
    return max(errors, default=None)


def compare_from_environment() -> None:
    """Compare calls of this process, if its variables ask for it: torch's compiler has just been imported."""
    from fuselight.shared.shadow_files import asked_plan  # noqa: PLC0415 - with the rest of what it needs

    plan = asked_plan(os.environ)
    if plan is not None:
        ShadowRun(plan).start()
