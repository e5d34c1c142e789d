"""A run of the user's program in which calls of what it compiles are made in eager mode, too, and compared.

Invariant: torch.compile gets what the source gives it, unless the request names another backend, and the program goes
on with what its own compiled code returns, prints and changes.
"""

from __future__ import annotations

import ast
import collections
import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch

from fuselight.adapters.torch_api import replaced_parts, settings
from fuselight.adapters.torch_api.dynamo import targets
from fuselight.capture import dynamo
from fuselight.capture.calls.calls import PlannedCall, Prepared, with_training
from fuselight.capture.calls.rungs import Answered
from fuselight.measure.accuracy import rules
from fuselight.measure.machine import conditions
from fuselight.measure.measured_call import on_device
from fuselight.shared.protocol import AccuracyRequest
from fuselight.shared.report import Accuracy, ComparedCall, Note, Problem, Report, ResultComparison
from fuselight.worker.child.request_results import RequestResult
from fuselight.worker.child.state import RunState
from fuselight.worker.child.target_run import Climb, InputsCaptured, make_calls
from fuselight.worker.results.compiled_call import CompiledCall, name_of
from fuselight.worker.results.eager_calls import RepeatedCall
from fuselight.worker.results.first_line import LineSearch, SwitchedBackends
from fuselight.worker.results.later_backward import LaterBackward
from fuselight.worker.results.other_configuration import OtherConfiguration
from fuselight.worker.results.saved_state import UnsavedError
from fuselight.worker.results.verdicts import References

_FIRST = 4
"""Calls of each function that are compared in any case."""
_MAX_COMPARED = 24
_MAX_LATER = 4
"""Calls whose backward is awaited at a time: each keeps a copy of what it can reach."""
_NO_GRAPHS = Note(
    "cuda_graphs",
    "CUDA graphs were left out while results were compared: `fuselight bench` compares those of their replays",
)
_LEFT_OUT = object()
"""The value of a part of the compiler that is to be as torch has it."""
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
        request = state.job.request
        training = request.training if isinstance(request, AccuracyRequest) else None
        calls = tuple(with_training(call, training=training) for call in answered.calls)
        if isinstance(request, AccuracyRequest) and request.device:
            device = conditions.choose(request.device)
            calls = tuple(_on_device(call, names, device) for call in calls)
        make_calls(state, replace(answered, calls=calls), names)


def _on_device(call: PlannedCall, names: Mapping[str, Any], device: torch.device) -> PlannedCall:
    """The call with its modules and inputs on a device."""
    return replace(call, build=lambda: on_device(call.build(), names, device))


def _set(state: RunState, texts: Mapping[str, str]) -> dict[str, object]:
    """Change settings of torch; returns the values of those that it has."""
    values: dict[str, object] = {}
    for name, text in texts.items():
        try:
            value = ast.literal_eval(text) if text else _LEFT_OUT
            _set_part(name, value)
        except (AttributeError, SyntaxError, TypeError, ValueError) as error:
            state.problems.append(Problem("settings", name, str(error)))
        else:
            values[name] = value
    return values


def _set_part(name: str, value: object) -> None:
    if value is _LEFT_OUT:
        if not name.startswith("options["):  # of a torch.compile: it gets none
            replaced_parts.leave_out(name)
    else:
        settings.set_torch_setting(name, value)


class ResultsRun(RequestResult):
    """Compares the calls of one program."""

    def __init__(self, state: RunState, request: AccuracyRequest, changed: Mapping[str, object]) -> None:
        """`changed`: settings of torch that the request changes, by name."""
        self._state, self._request, self._changed = state, request, changed
        searches = request.locate_seconds > 0 or request.kernels
        self._backends = SwitchedBackends(request.backend, switches=searches, left_out=request.settings)
        self._other = OtherConfiguration(request.against, self._backends) if request.against else None
        self._calls: list[ComparedCall] = []
        self._count = 0
        self._by_name: collections.Counter[str] = collections.Counter()
        self._why_not = ""
        self._is_inside = False
        self._thread = threading.get_ident()
        self._until = time.monotonic() + _SHARE * request.limits.seconds
        self._has_searched = False
        self._sampled: set[str] = set()
        """Functions whose random numbers were compared as distributions."""
        self._before = replaced_parts.changed_settings()
        self._replaced: dict[str, None] = {}
        """Parts of the compiler that are the program's own while it makes calls that may be wrong."""
        self._later: list[LaterBackward] = []
        """Calls whose backward in the program is awaited."""

    def complete_report(self, report: Report) -> Report:
        """Add the calls so far."""
        comparison = ResultComparison(
            tuple(self._calls),
            self._count,
            self._why_not,
            self._request.backend,
            dict(self._request.settings),
            against=self._request.against,
            replaced=tuple(self._replaced),
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
            _set_part(name, value)
        if self._is_inside or threading.get_ident() != self._thread:
            return compiled(*args, **kwargs)
        index, self._count = self._count, self._count + 1
        function = targets.inside_wrapper(function)
        if not self._is_due(index, name_of(function)):
            self._stop_if_done(index)
            return compiled(*args, **kwargs)
        with self._inside():
            roots = tuple(self._state.job.request.roots)
            call = CompiledCall(
                index,
                function,
                compiled,
                Prepared(function, args, kwargs, is_live=True),
                roots,
                self._state.loaded.last_before(roots),
                samples_draws=self._samples_draws(name_of(function)),
            )
            results = self._compared(call)
        self._stop_if_done(index)
        return results

    def _samples_draws(self, name: str) -> bool:
        """Whether a call is the first chance to compare the random numbers of a function as distributions."""
        is_plain = not (self._request.calls or self._request.backend or self._request.against)
        return is_plain and name not in self._sampled

    def _stop_if_done(self, index: int) -> None:
        """End the program after the last call that is asked for, and its backward. Raises InputsCaptured."""
        if self._request.calls and index >= max(self._request.calls) and not self._later:
            raise InputsCaptured

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

    def _compared(self, call: CompiledCall) -> Any:
        """Make the call in eager mode, compare, and return what the compiled code returns. Raises what that raises."""
        try:
            recorded = call.saved()
        except UnsavedError as why:
            self._calls.append(call.result(rules.not_compared(str(why))))
            return call.repeated()
        result, references = self._decided(call, recorded)
        if not result.is_as_eager:
            own = replaced_parts.replaced_parts(call.is_users, self._before)
            self._replaced.update(dict.fromkeys((*self._backends.options, *own)))
        if result.draws is not None:
            self._sampled.add(result.name)
        unknown = self._state.kernel_launches.unknown
        if unknown:  # what stands for them may differ from one mode to the other
            result = replace(result, accuracy=rules.not_compared(unknown), others=())
        if result.is_wrong and self._request.locate_seconds and not self._has_searched:
            search = LineSearch(recorded, references, call.compiled, self._backends)
            located = search.located(result.accuracy, self._request.locate_seconds)
            self._has_searched = bool(located.first) or not self._backends.is_capture
            result = replace(result, accuracy=located)
        elif self._request.kernels:
            search = LineSearch(recorded, references, call.compiled, self._backends)
            result = replace(result, accuracy=search.with_kernels(result.accuracy))
        self._calls.append(result)
        returned = call.repeated()
        if not result.is_wrong and call.has_own_backward:
            self._watch_backward(call, recorded, returned)
        return returned

    def _watch_backward(self, call: CompiledCall, recorded: RepeatedCall, returned: Any) -> None:
        """Compare also the backward that the program runs, if it does."""

        def accept(verdict: Accuracy) -> None:
            self._later.remove(later)
            self._accept_later(call.index, verdict)

        locates = bool(self._request.locate_seconds)
        later = LaterBackward(recorded, call.compiled, call.saved_state, self._inside, accept, locates)
        if later.watch(returned):
            self._later.append(later)
        while len(self._later) > _MAX_LATER:  # their backward may never run
            self._later.pop(0).stop()

    def _accept_later(self, index: int, verdict: Accuracy) -> None:
        """Take in how the program's backward of a call compares."""
        if verdict.passed is not False:
            return
        at = next(at for at, call in enumerate(self._calls) if call.index == index)
        kept = replace(verdict, compared=verdict.compared + self._calls[at].accuracy.compared)
        self._calls[at] = replace(self._calls[at], accuracy=kept)

    @contextlib.contextmanager
    def _inside(self) -> Iterator[None]:
        """Inside, calls of compiled functions are not compared."""
        self._is_inside = True
        try:
            yield
        finally:
            self._is_inside = False

    def _decided(self, call: CompiledCall, recorded: RepeatedCall) -> tuple[ComparedCall, References]:
        """Compare a call. If a cache of functools changes in one mode only, a second call in a row decides."""
        if self._other is not None:
            return call.compare(recorded, self._other)
        result, references = call.compare(recorded)
        if result.is_wrong or not references.changed_caches:
            return result, references
        recorded.is_second = True
        second, of_second = call.compare(recorded)
        if not second.is_wrong:
            recorded.is_second = False
            return result, references
        names = ", ".join(f"`{name}`" for name in references.changed_caches)
        note = f"in a second call in a row: eager mode keeps a result in the cache of {names}, compiled code does not"
        return replace(second, accuracy=rules.with_note(second.accuracy, note)), of_second
