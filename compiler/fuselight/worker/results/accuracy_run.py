"""A run of the user's program in which calls of what it compiles are made in eager mode, too, and compared.

Invariant: torch.compile gets what the source gives it, unless the request names another backend, and the program goes
on with what its own compiled code returns, prints and changes.
"""

from __future__ import annotations

import ast
import collections
import contextlib
import inspect
import io
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from fuselight.adapters.torch_api import settings
from fuselight.adapters.torch_api.dynamo import targets
from fuselight.adapters.torch_api.rounding_noise import RoundingNoise, WrittenMemory
from fuselight.capture import dynamo
from fuselight.capture.calls.calls import Prepared, module_of
from fuselight.capture.calls.rungs import Answered
from fuselight.capture.dynamo import stacks
from fuselight.measure.accuracy import rules
from fuselight.shared.protocol import AccuracyRequest
from fuselight.shared.report import (
    Accuracy,
    ComparedCall,
    Note,
    Problem,
    Report,
    ResultComparison,
    is_user_file,
)
from fuselight.worker.child.request_results import RequestResult
from fuselight.worker.child.state import RunState
from fuselight.worker.child.target_run import Climb, InputsCaptured, make_calls
from fuselight.worker.live.call_records import RecordingStream, random_digests
from fuselight.worker.results.eager_calls import RepeatedCall
from fuselight.worker.results.first_line import LineSearch, SwitchedBackends
from fuselight.worker.results.saved_state import SavedState, UnsavedError
from fuselight.worker.results.verdicts import References, judged
from fuselight.worker.verify.context_cases import user_namespaces

_FIRST = 4
"""Calls of each function that are compared in any case."""
_MAX_COMPARED = 24
_NO_GRAPHS = Note(
    "cuda_graphs",
    "CUDA graphs were left out while results were compared: `fuselight bench` compares those of their replays",
)
_SHARE = 0.6
"""The part of the time limit that is spent before the last comparison begins."""


@dataclass
class CompareResults:
    """Makes the calls of the target as the source compiles it, and compares them (target_run.RunStrategy)."""

    runs_main: bool = True

    @contextlib.contextmanager
    def compiling(self, state: RunState) -> Iterator[dynamo.CompileCalls]:
        """As in RunStrategy."""
        request = state.job.request
        if not isinstance(request, AccuracyRequest):
            raise TypeError(f"{type(request).__name__} does not say what to compare")
        comparison = ResultsRun(state, request, _set(state, request.settings))
        state.result = comparison
        with comparison.active():
            yield dynamo.CompileCalls()

    def use(self, state: RunState, answered: Answered, climb: Climb, names: Mapping[str, Any]) -> None:
        """As in RunStrategy."""
        del climb
        make_calls(state, answered, names)


def _set(state: RunState, texts: Mapping[str, str]) -> dict[str, object]:
    """Change settings of torch; returns the values of those that it has."""
    values: dict[str, object] = {}
    for name, text in texts.items():
        try:
            value = ast.literal_eval(text)
            settings.set_torch_setting(name, value)
        except (AttributeError, SyntaxError, TypeError, ValueError) as error:
            state.problems.append(Problem("settings", name, str(error)))
        else:
            values[name] = value
    return values


class ResultsRun(RequestResult):
    """Compares the calls of one program."""

    def __init__(self, state: RunState, request: AccuracyRequest, changed: Mapping[str, object]) -> None:
        """`changed`: settings of torch that the request changes, by name."""
        self._state, self._request, self._changed = state, request, changed
        self._backends = SwitchedBackends(request.backend, switches=request.locate_seconds > 0)
        self._calls: list[ComparedCall] = []
        self._count = 0
        self._by_name: collections.Counter[str] = collections.Counter()
        self._why_not = ""
        self._is_inside = False
        self._thread = threading.get_ident()
        self._until = time.monotonic() + _SHARE * request.limits.seconds
        self._has_searched = False

    def complete_report(self, report: Report) -> Report:
        """Add the calls so far."""
        comparison = ResultComparison(
            tuple(self._calls),
            self._count,
            self._why_not,
            self._request.backend,
            dict(self._request.settings),
        )
        notes = (*report.notes, _NO_GRAPHS) if self._backends.without_cuda_graphs else report.notes
        return replace(report, results=comparison, notes=notes)

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Inside, calls of compiled functions pass through the comparison."""
        with self._backends.active(), targets.changed_compiled_calls(self._call):
            yield

    def _call(
        self, function: Any, compiled: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        for name, value in self._changed.items():  # again: the program itself may have set it since
            settings.set_torch_setting(name, value)
        if self._is_inside or threading.get_ident() != self._thread:
            return compiled(*args, **kwargs)
        index, self._count = self._count, self._count + 1
        function = targets.inside_wrapper(function)
        if not self._is_due(index, _name_of(function)):
            return compiled(*args, **kwargs)
        self._is_inside = True
        try:
            call = _CompiledCall(
                self._state, index, function, compiled, Prepared(function, args, kwargs, is_live=True)
            )
            results = self._compared(call)
        finally:
            self._is_inside = False
        if self._request.calls and index >= max(self._request.calls):
            raise InputsCaptured
        return results

    def _is_due(self, index: int, name: str) -> bool:
        """Whether a call is compared: the first ones of each function, and of later ones those at powers of two."""
        of_function = self._by_name[name]
        self._by_name[name] += 1
        if self._request.calls:
            return index in self._request.calls
        is_sampled = of_function < _FIRST or not of_function & (of_function - 1)
        if len(self._calls) >= _MAX_COMPARED or not is_sampled:
            return False
        if time.monotonic() > self._until:
            self._why_not = "the time for it was over"
            return False
        return True

    def _compared(self, call: _CompiledCall) -> Any:
        """Make the call in eager mode, compare, and return what the compiled code returns. Raises what that raises."""
        try:
            recorded = call.saved()
        except UnsavedError as why:
            self._calls.append(call.result(rules.not_compared(str(why))))
            return call.repeated()
        result, references = call.compare(recorded)
        if result.is_wrong and self._request.locate_seconds and not self._has_searched:
            self._has_searched = True
            search = LineSearch(recorded, references, call.compiled, self._backends)
            located = search.located(result.accuracy, self._request.locate_seconds)
            result = replace(result, accuracy=located)
        self._calls.append(result)
        return call.repeated()


@dataclass
class _CompiledCall:
    """One call of what the program compiles."""

    state: RunState
    index: int
    function: Any
    compiled: Callable[..., Any]
    prepared: Prepared

    def saved(self) -> RepeatedCall:
        """The call, ready to be made again. Raises UnsavedError."""
        roots = tuple(self.state.job.request.roots)
        main = vars(sys.modules["__main__"])
        plain = inspect.unwrap(getattr(self.function, "__func__", self.function))
        names = getattr(plain, "__globals__", main)

        def is_users(path: str) -> bool:
            return is_user_file(path, roots)

        if not is_users(str(names.get("__file__", ""))):  # of a module torch's own: its `__call__`
            names = main
        namespaces = [names for names in user_namespaces(names, is_users) if isinstance(names, dict)]
        reached = [self.function, self.prepared.args, self.prepared.kwargs]
        return RepeatedCall(
            self.prepared,
            names,
            (RecordingStream(_Nowhere()), RecordingStream(_Nowhere())),
            roots,
            self.state.loaded.last_before(roots),
            SavedState(reached, namespaces, is_users),
        )

    def compare(self, recorded: RepeatedCall) -> tuple[ComparedCall, References]:
        """Make the call in eager mode twice, in float64 and compiled, each from the same state, and compare."""
        with _silent(recorded.streams):
            before = random_digests()
            start = time.perf_counter()
            eager = recorded.eager()
            eager_seconds = time.perf_counter() - start
            float64, why = recorded.float64() if not eager.raised else (None, "")
            references = References(
                eager,
                recorded.eager(WrittenMemory()),
                float64,
                why,
                is_random=eager.random != before,
                draws_as_eager=settings.draws_eager_random_numbers(),
                noise=lambda seed: recorded.eager(RoundingNoise(seed)),
            )
            start = time.perf_counter()
            compiled = recorded.repeated(self.compiled, compiled=True)
            compiled_seconds = time.perf_counter() - start
            verdict, others = judged(compiled, references, training=self._trains())
            is_wrong = verdict.passed is False or bool(others)
            faults = tuple(recorded.operator_faults()) if is_wrong and not eager.raised else ()
        return replace(
            self.result(verdict),
            others=others,
            is_random=references.is_random,
            eager_seconds=eager_seconds,
            compiled_seconds=compiled_seconds,
            operators=faults,
        ), references

    def _trains(self) -> bool:
        module = module_of(self.function)
        return torch.is_grad_enabled() and module is not None and module.training

    def result(self, verdict: Accuracy) -> ComparedCall:
        """The call with a verdict."""
        module = module_of(self.function)
        code = targets.code_of(self.function if module is None else module)
        callers = stacks.calling_frames(limit=1)
        return ComparedCall(
            self.index,
            _name_of(self.function),
            stacks.def_location(code) if code is not None else None,
            callers[-1] if callers else None,
            verdict,
        )

    def repeated(self) -> Any:
        """Make the call for the program itself. Raises what it raises."""
        return self.compiled(*self.prepared.args, **self.prepared.kwargs)


def _name_of(function: Any) -> str:
    """`Net`, `Adam.step`, `train.<locals>.step`."""
    module, owner = module_of(function), getattr(function, "__self__", None)
    if module is not None:
        return type(module).__qualname__
    if owner is not None and not isinstance(owner, type):
        return f"{type(owner).__qualname__}.{getattr(function, '__name__', '')}"
    return getattr(function, "__qualname__", "") or type(function).__qualname__


class _Nowhere(io.TextIOBase):
    """Takes text that nobody reads."""

    def write(self, text: str) -> int:
        """Forget the text."""
        return len(text)


@contextlib.contextmanager
def _silent(streams: tuple[RecordingStream, RecordingStream]) -> Iterator[None]:
    """Inside, the program prints to the streams, and nothing is left out because it was said before."""
    with (
        contextlib.redirect_stdout(streams[0]),
        contextlib.redirect_stderr(streams[1]),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("always")
        yield
