"""A capture as an experiment: it counts the runs of each graph, and changes the calls of one compiled function.

Invariant: a run without a cure makes the program's calls as they are. With the same number of calls of compiled
functions, the counts of two runs can be compared.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import FunctionType, ModuleType
from typing import Any

import torch

from fuselight.adapters.torch_api import settings
from fuselight.adapters.torch_api.dynamo import frames, targets
from fuselight.adapters.torch_api.structured_log import without_log
from fuselight.adapters.torch_api.tensor_uses import heard_uses
from fuselight.capture import dynamo
from fuselight.capture.calls.cured_calls import CureError, UnfitValueError, cured_call
from fuselight.capture.calls.left_out import leave_out, take_in
from fuselight.capture.calls.reachable_objects import MethodOwners, reached_objects, state_of
from fuselight.capture.calls.tensors import tensors_in
from fuselight.capture.dynamo import stacks
from fuselight.shared.protocol import CaptureRequest
from fuselight.shared.report import REPLACED, CallCure, CureKind, CureRun, Report, TrialCounts
from fuselight.worker.child.request_results import RequestResult
from fuselight.worker.child.state import RunState
from fuselight.worker.child.target_run import InputsCaptured, MakeCalls, until_steady


class TryCure(MakeCalls):
    """Makes the calls of a capture with the cure of the request, and counts."""

    def compiling(self, state: RunState) -> contextlib.AbstractContextManager[dynamo.CompileCalls]:
        """As in RunStrategy."""
        request = state.job.request
        if not isinstance(request, CaptureRequest) or request.trial is None:
            return super().compiling(state)
        run = CureTrialRun(request.trial)
        changed = request.trial.cure.settings if request.trial.cure is not None else {}
        for name, value in changed.items():
            settings.set_dynamo_config(name, value)
        state.result = run
        backend = self.backend(state)
        # With a number of calls, that ends the program.
        if request.automatic and request.trial.calls is None:
            backend = until_steady(state, backend)
        return self._compiling(run, backend)

    @contextlib.contextmanager
    def _compiling(self, run: CureTrialRun, backend: Callable[..., Any]) -> Iterator[dynamo.CompileCalls]:
        with (
            without_log(),
            run.active(),
            dynamo.capture_only(run.counting(backend), run.changed_arguments) as calls,
        ):
            yield calls


def _sums(outputs: Any) -> tuple[float, ...]:
    """What identifies tensors but for rounding: sizes, bytes of an element, and three sums of their values.

    Empty where they cannot be read, as of fake tensors.
    """
    sums: list[float] = []
    try:
        with torch.no_grad():
            for tensor in itertools.islice(tensors_in(outputs), _MAX_TENSORS):
                if not tensor.is_complex():
                    values = tensor.detach().double()
                    by_place = torch.linspace(1, 2, values.numel(), dtype=values.dtype, device=values.device)
                    sums += [*map(float, tensor.shape), float(tensor.element_size())]
                    sums += [
                        float(values.sum()),
                        float(values.abs().sum()),
                        float(values.flatten() @ by_place),
                    ]
    except Exception:  # noqa: BLE001 - a mode or a subclass of the user's may refuse any operator
        return ()
    return tuple(sums)


def _state_after(
    function: Any, given: _Passed, passed_on: _Passed, tensors: list[torch.Tensor]
) -> dict[str, str]:
    """What the values that a call could reach hold after it, in words; `tensors` gets the tensors among them.

    `given`: the arguments of the program's call; `passed_on`: those with the cure.
    """
    owner: Any = getattr(function, "__self__", None)
    called = owner.forward if isinstance(owner, torch.nn.Module) else function
    plain = inspect.unwrap(getattr(called, "__func__", called))
    variables = {
        name: item for name, item in getattr(plain, "__globals__", {}).items() if _is_data(name, item)
    }
    try:
        names = list(inspect.signature(called).parameters)
        before, after = (
            {next(iter(names[index:]), f"argument {index}"): value for index, value in enumerate(args)}
            | kwargs
            for args, kwargs in (given, passed_on)
        )
        replaced = {name: REPLACED for name, value in after.items() if value is not before.get(name)}
        return {**state_of({**variables, **after, "self": owner}, tensors), **replaced}
    except Exception:  # noqa: BLE001 - an attribute of the user's may refuse to be read
        return {}


_Passed = tuple[tuple[Any, ...], dict[str, Any]]
"""Arguments of a call, by place and by name."""


def _version(tensor: torch.Tensor) -> int:
    """How often a tensor was changed in place; 0 for one of inference mode, which does not count."""
    return 0 if tensor.is_inference() else tensor._version  # noqa: SLF001 - no public name


def _is_data(name: str, value: Any) -> bool:
    """Whether a global variable is a collection or an object, and not a number that is read as the call's own."""
    is_code = isinstance(value, (type, ModuleType, FunctionType)) or name.startswith("__")
    return not is_code and not isinstance(value, (str, bytes, int, float, complex))


_OF_MODULES = {CureKind.OUTSIDE: leave_out, CureKind.INSIDE: take_in}
"""Changes of functions, wherever a module or a class has them."""
_MAX_RESULTS = 64
"""Calls of which the results are compared."""
_MAX_TENSORS = 16
"""Tensors of one call."""


class CureTrialRun(RequestResult):
    """The counts of one run."""

    def __init__(self, trial: CureRun) -> None:
        """Start at zero."""
        self._trial = trial
        self._calls = self._changed = 0
        self._graph_runs: Counter[str] = Counter()
        self._refused, self._is_unfit = "", False
        self._is_first = False
        self._owners = MethodOwners()
        self._results: list[tuple[float, ...]] = []
        self._state: dict[str, str] = {}
        self._kept: tuple[float, ...] = ()
        self._keys = self._texts = 0

    def complete_report(self, report: Report) -> Report:
        """Add the counts so far."""
        results = tuple(self._results)
        counts = TrialCounts(
            self._calls,
            dict(self._graph_runs),
            self._changed,
            self._refused,
            results,
            self._state,
            self._kept,
            self._keys,
            self._texts,
            self._is_unfit,
        )
        return replace(report, trial=counts)

    @contextlib.contextmanager
    def active(self) -> Iterator[None]:
        """Inside, calls of compiled functions pass through the trial."""
        with targets.changed_compiled_calls(self._call), heard_uses(self._on_key, self._on_text):
            yield

    def _on_key(self, path: str) -> None:
        self._keys += stacks.is_shown(path)

    def _on_text(self) -> None:
        self._texts += 1

    def counting(self, backend: Callable[..., Any]) -> Callable[..., Any]:
        """Return `backend`, whose graphs count their runs."""

        @functools.wraps(backend)
        def capture(gm: Any, example_inputs: Any, **options: Any) -> Callable[..., Any]:
            forward = backend(gm, example_inputs, **options)
            compile_id = frames.current_compile_id() or ""

            def counted(*args: Any) -> Any:
                self._graph_runs[compile_id] += 1
                return forward(*args)

            return counted

        return capture

    def changed_arguments(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a torch.compile that the cure changes, of each: which it means is not known yet."""
        changed: dict[str, Any] = {}
        for part in self._trial.cure.changes if self._trial.cure is not None else ():
            if part.kind is CureKind.DYNAMIC:
                changed["dynamic"] = True if part.value == "True" else None
            elif part.kind is CureKind.LIMIT and asked.get("recompile_limit") is not None:
                changed["recompile_limit"] = int(part.value)
            elif part.kind is CureKind.FULLGRAPH and asked.get("fullgraph"):
                changed["fullgraph"] = False
            elif part.kind is CureKind.ISOLATE:
                changed["isolate_recompiles"] = True
        self._changed += len(changed)
        return changed

    def _call(
        self, function: Any, compiled: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        if self._trial.calls is not None and self._calls >= self._trial.calls:
            raise InputsCaptured
        if self._is_first:
            return compiled(*args, **kwargs)
        self._calls += 1
        function = targets.inside_wrapper(function)
        cure, given = self._trial.cure, (args, kwargs)
        for name, value in cure.settings.items() if cure is not None else ():
            settings.set_dynamo_config(name, value)  # the program may have set it after its start
        for part in cure.changes if cure is not None and not self._refused else ():
            if part.kind is CureKind.FIRST_CALL and not self._changed and self._is_meant(part, function):
                self._call_first(function, compiled, args, kwargs)
            args, kwargs = self._changed_call(part, function, args, kwargs)
        outputs = self._outputs(compiled, args, kwargs)
        if len(self._results) < _MAX_RESULTS:
            self._results.append(_sums(outputs))
            tensors: list[torch.Tensor] = []
            self._state.update(_state_after(function, given, (args, kwargs), tensors))
            self._kept = _sums(tensors)
        return outputs

    def _changed_call(
        self, part: CallCure, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call with one change."""
        try:
            change = _OF_MODULES.get(part.kind)
            if change is not None:
                self._changed += not self._changed and change(part)
            elif part.subjects and self._is_meant(part, function):
                args, kwargs, is_changed = cured_call(part, function, args, kwargs, self._owners)
                self._changed += is_changed
        except CureError as why:
            self._refused, self._is_unfit = str(why), isinstance(why, UnfitValueError)
        return args, kwargs

    def _outputs(self, compiled: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if self._trial.cure is None or self._trial.cure.kind is not CureKind.EAGER:
            return compiled(*args, **kwargs)
        self._changed += 1
        with torch.compiler.set_stance("force_eager"):
            return compiled(*args, **kwargs)

    def _call_first(
        self, function: Any, compiled: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        """Make a call in eager mode; the numbers that it draws are drawn again by the calls after it."""
        self._changed += 1
        self._is_first = True
        drawn = random.getstate()
        given = (function, getattr(function, "__self__", None), *args, *kwargs.values())
        reached = reached_objects(inspect.unwrap(getattr(function, "__func__", function)), given)
        versions = [(item, _version(item)) for item in reached if isinstance(item, torch.Tensor)]
        try:
            with torch.random.fork_rng(), torch.compiler.set_stance("force_eager"):
                compiled(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 - of the user's code
            self._refused = f"the call in eager mode raises {type(error).__name__}"
        else:
            if any(_version(item) != version for item, version in versions):
                self._refused = "the call changes a tensor in place, as each later call does once more"
                self._is_unfit = True
        finally:
            self._is_first = False
            random.setstate(drawn)

    def _is_meant(self, cure: CallCure, function: Any) -> bool:
        """Whether a function is the one whose calls the cure changes, inside its wrappers."""
        meant = (cure.outer_path or cure.path, cure.outer_line or cure.line)
        owner = getattr(function, "__self__", None)
        inner = inspect.unwrap(getattr(function, "__func__", function))
        for candidate in (function, owner, inner, type(inner).__call__):
            code = targets.code_of(candidate) if candidate is not None else None
            place = stacks.def_location(code) if code is not None else None
            if place is not None and (place.path, place.line) == meant:
                return True
        return False
