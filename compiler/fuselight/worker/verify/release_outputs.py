"""Calls a target in eager mode, compiled and in float64, and compares the results with those of an earlier torch.

The worker of the earlier release runs first and leaves its results in a folder, with the values of inputs, parameters
and buffers. The later one gets the same values: releases may draw other random numbers from a seed. Invariant: each
call has an object of its own, built after the same seed. A verdict on eager uses the float64 results of the earlier
release, so that a later release that computes something else is not excused by its own reference.
"""

from __future__ import annotations

import contextlib
import math
import os
import re
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from fuselight.adapters.torch_api import settings
from fuselight.adapters.torch_api.dynamo import targets
from fuselight.adapters.torch_api.inductor import vector_units
from fuselight.adapters.torch_api.rounding_noise import RoundingNoise
from fuselight.capture import dynamo
from fuselight.capture.calls.calls import Prepared
from fuselight.capture.calls.random_fill import quick_random
from fuselight.capture.calls.rungs import Answered, Silent
from fuselight.capture.calls.tensors import SEED, set_seeds
from fuselight.measure.accuracy import RANDOM, results, rules
from fuselight.measure.accuracy.reference import float64_results, restoration, varies
from fuselight.measure.accuracy.results import CallResults, held_tensors, of_call
from fuselight.measure.accuracy.rounding import with_rounding
from fuselight.shared.inputs import UserCallError
from fuselight.shared.protocol import OutputsRequest
from fuselight.shared.report import (
    Accuracy,
    Call,
    CallErrors,
    Deprecation,
    Location,
    ReleaseCall,
    ReleaseOutputs,
    is_user_file,
)
from fuselight.shared.report.failure import first_line
from fuselight.worker.child import child, run_failures
from fuselight.worker.child.request_results import ComparedOutputs
from fuselight.worker.child.state import RunState, put
from fuselight.worker.child.target_run import Climb
from fuselight.worker.verify.eager_mode import eager_mode

_MAX_CALLS = 4
_MAX_ELEMENTS = 1 << 27
"""Of all values that are kept for the later side: half a GiB of float32."""
_MAX_DEPRECATIONS = 50
_HIDDEN = (DeprecationWarning, PendingDeprecationWarning)
_DEPRECATED = (DeprecationWarning, PendingDeprecationWarning, FutureWarning)
_WORDS = re.compile(r"\bdeprecat|\bwill be removed\b|\bwill change\b", re.IGNORECASE)
_TORCH = re.compile(r"\btorch\b|[/\\]torch[/\\]")

_REFUSED = "refused"
_PLAIN = (torch.Tensor, torch.nn.Parameter)
_DRAWS = "the target draws random numbers, and another version of torch may draw others from the same seed"
_OTHER_VALUES = "inputs or parameters start with other values: the later version got those of the earlier one"
EAGER, COMPILED, FLOAT64, VALUES = "eager", "compiled", "float64", "values"


class OtherValuesError(Exception):
    """The sides do not have the same tensors; the message says which differ."""


@dataclass
class CompareOutputs:
    """Records the results of the earlier release, or compares those of the later one (target_run.RunStrategy)."""

    runs_main: bool = False
    deprecations: dict[tuple[str, object], Deprecation] = field(default_factory=dict)

    @contextlib.contextmanager
    def compiling(self, state: RunState) -> Iterator[dynamo.CompileCalls]:
        """Compile with Inductor's defaults, and hear what torch warns of."""
        request = state.job.request
        users_caches = vector_units.own_caches()
        if isinstance(request, OutputsRequest) and request.cache:
            os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(request.cache, "inductor")
            os.environ["TRITON_CACHE_DIR"] = os.path.join(request.cache, "triton")
        with (
            vector_units.tested_in(users_caches),
            settings.inductor_in_this_process(),
            dynamo.capture_only(_inductor) as calls,
            warnings.catch_warnings(),
        ):
            self._listen(state)
            yield calls

    def use(self, state: RunState, answered: Answered, climb: Climb, names: Mapping[str, Any]) -> None:
        """As in RunStrategy."""
        del names
        request = state.job.request
        if not isinstance(request, OutputsRequest):
            raise TypeError(f"{type(request).__name__} does not say what to compare with")
        result = ComparedOutputs(ReleaseOutputs())
        state.result = result
        try:
            for index, planned in enumerate(answered.calls[:_MAX_CALLS]):
                builder = _Builder(climb, index, [answered] if not index else [])
                call = _ReleaseCallRun(state, request, index, planned.text, builder)
                state.calls.append(Call(index, planned.text, planned.location))
                self._make(call, result)
            _note_further(result, len(answered.calls) - _MAX_CALLS)
        except OtherValuesError as why:
            result.outputs = replace(result.outputs, refused=str(why))
        finally:
            result.outputs = replace(result.outputs, deprecations=tuple(self.deprecations.values()))

    @staticmethod
    def _make(call: _ReleaseCallRun, result: ComparedOutputs) -> None:
        if call.request.records:
            try:
                call.record()
            except OtherValuesError as why:
                call.refuse(str(why))
                raise
        else:
            result.outputs = replace(result.outputs, calls=(*result.outputs.calls, call.compare()))

    def _listen(self, state: RunState) -> None:
        """Keep each deprecation of torch once; other warnings are shown as always."""
        shown = warnings.showwarning
        roots = state.job.request.roots

        @torch.compiler.disable  # type: ignore[untyped-decorator]
        def hear(message: Any, category: Any, filename: str, lineno: int, *rest: Any, **named: Any) -> None:
            text = " ".join(str(message).split())
            is_of_torch = bool(_TORCH.search(text) or _TORCH.search(filename))
            if not is_of_torch or not (issubclass(category, _DEPRECATED) or _WORDS.search(text)):
                if not issubclass(category, _HIDDEN):  # Python shows them only because they are listened to
                    shown(message, category, filename, lineno, *rest, **named)
                return
            users = [place for place in traceback.extract_stack() if is_user_file(place.filename, roots)]
            places = run_failures.stack_of(users[-1:], roots)
            if places and len(self.deprecations) < _MAX_DEPRECATIONS:
                place = Location(places[0].path, places[0].line)
                self.deprecations.setdefault((text, place), Deprecation(text, category.__name__, place))

        for category in _DEPRECATED:
            warnings.simplefilter("always", category)
        warnings.showwarning = hear


def _note_further(result: ComparedOutputs, number: int) -> None:
    """Say on the last call that further ones were not compared."""
    calls = result.outputs.calls
    if number > 0 and calls:
        text = f"{number:,} further call{'s were' if number > 1 else ' was'} not compared"
        last = replace(calls[-1], notes=(*calls[-1].notes, text))
        result.outputs = replace(result.outputs, calls=(*calls[:-1], last))


@dataclass
class _Builder:
    """Builds the object of one call again and again."""

    climb: Climb
    index: int
    available: list[Answered]
    """The first answer of the ladder, until it is used."""

    def build(self) -> Prepared:
        """A fresh object, with the parameters of the seed. Raises what the user's code raises."""
        set_seeds(SEED)
        answered = self.available.pop() if self.available else self._answer()
        if self.index >= len(answered.calls):
            raise OtherValuesError(
                f"the inputs cannot be made again: there are only {len(answered.calls)} calls"
            )
        planned = answered.calls[self.index]
        if planned.fake:
            raise OtherValuesError("the directive asks for fake tensors, which have no values")
        try:
            with quick_random():
                return planned.build()
        except UserCallError as error:
            raise error.__cause__ or error from None

    def _answer(self) -> Answered:
        try:
            return self.climb()
        except Silent as why:
            raise OtherValuesError(f"the inputs cannot be made again: {why}") from None


@dataclass
class _ReleaseCallRun:
    """One call of this release."""

    state: RunState
    request: OutputsRequest
    index: int
    text: str
    """The call, in the notation of a directive."""
    builder: _Builder
    notes: dict[str, None] = field(default_factory=dict)
    varying: str = ""
    is_training: bool = False
    _kept: dict[str, torch.Tensor] | None = None
    """The values of the first object of the earlier side, which each later object gets."""

    def refuse(self, why: str) -> None:
        """Leave the reason in the folder, for the later side."""
        put(self._path(_REFUSED), why.encode("utf-8", "replace"))

    def record(self) -> None:
        """Leave the values and the results in the folder. Raises OtherValuesError."""
        held = dict(held_tensors(self._built()))
        total = sum(tensor.numel() for tensor in held.values())
        if total > _MAX_ELEMENTS:
            raise OtherValuesError(
                f"the inputs and parameters have {total:,} elements; up to {_MAX_ELEMENTS:,} are compared"
            )
        for name, tensor in held.items():
            if type(tensor) not in _PLAIN:
                raise OtherValuesError(
                    f"{name} is a {type(tensor).__name__}: only plain tensors have values to hand on"
                )
        try:
            self._kept = {name: tensor.detach().to("cpu", copy=True) for name, tensor in held.items()}
            torch.save(self._kept, self._path(VALUES))
        except RuntimeError as error:  # a meta tensor
            raise OtherValuesError(f"the inputs and parameters cannot be kept: {first_line(error)}") from None
        self._save(EAGER, self._eager())
        self._save(COMPILED, self._compiled())
        double, _ = self._float64()
        self._save(FLOAT64, double)
        self._check_values()

    def _check_values(self) -> None:
        unknown = self.state.kernel_launches.unknown
        if unknown:
            raise OtherValuesError(unknown)

    def compare(self) -> ReleaseCall:
        """Make the call with the earlier side's values, and compare the results. Raises OtherValuesError."""
        before = self._earlier()
        eager = self._eager()
        old_eager = before[EAGER]
        if old_eager is None or eager is None:
            failing = (
                "both versions" if old_eager is eager else f"the {'earlier' if eager else 'later'} version"
            )
            raise OtherValuesError(f"the call fails without torch.compile with {failing}")
        compiled = self._compiled()
        self.varying = self._variation()
        double, why = self._float64()
        self._check_values()
        after = {EAGER: eager, COMPILED: compiled, FLOAT64: double}
        old_compiled = before[COMPILED]
        is_same_code = None
        if compiled is not None and old_compiled is not None:
            is_same_code = _is_equal(compiled, old_compiled)
        exact = self._compared_exactly(double, before[FLOAT64])
        verdict = self._compared_eager(eager, old_eager, before[FLOAT64], why)
        if exact is None or exact.passed:  # else another operator, and no rounding
            verdict = self._on_edge(verdict, old_eager, eager)
        return ReleaseCall(
            call=self.index,
            text=self.text,
            eager=verdict,
            is_eager_equal=_is_equal(eager, old_eager),
            float64=exact,
            compiled_before=self._compared_compiled(before, eager),
            compiled_after=self._compared_compiled(after, eager),
            is_compiled_equal=is_same_code,
            errors=CallErrors(
                *(_error(side[mode], side[FLOAT64]) for side in (before, after) for mode in (EAGER, COMPILED))
            ),
            notes=tuple(self.notes),
        )

    def _earlier(self) -> dict[str, CallResults | None]:
        """The results of the earlier side, and its values for this one. Raises OtherValuesError."""
        with contextlib.suppress(OSError), open(self._path(_REFUSED), encoding="utf-8") as file:
            raise OtherValuesError(f"with the earlier version, {file.read()}")
        if not os.path.exists(self._path(VALUES)):
            raise OtherValuesError("there are no results of the earlier version of torch")
        try:
            self._kept = torch.load(self._path(VALUES), map_location="cpu", weights_only=True)
            return {mode: self._load(mode) for mode in (EAGER, COMPILED, FLOAT64)}
        except Exception as error:  # noqa: BLE001 - torch raises many kinds for what it does not know
            why = f"{type(error).__name__}: {first_line(error)}"
            raise OtherValuesError(f"the results of the earlier version cannot be read: {why}") from None

    def _variation(self) -> str:
        """Why the results vary, as `varies` has it. Raises OtherValuesError."""
        try:
            return varies(self._built)
        except OtherValuesError:
            raise
        except Exception as error:  # noqa: BLE001 - user code may raise anything
            why = f"{type(error).__name__}: {first_line(error)}"
            raise OtherValuesError(f"the call fails when it is repeated: {why}") from None

    def _built(self) -> Prepared:
        """A fresh object, with the values of the first one of the earlier side. Raises OtherValuesError."""
        prepared = self.builder.build()
        self.is_training = prepared.options.train
        if self._kept is None:
            return prepared
        held = dict(held_tensors(prepared))
        only = sorted(set(held) ^ set(self._kept))
        if only:
            raise OtherValuesError(f"only one of the {self._sides} has {', '.join(only[:3])}")
        for name, tensor in held.items():
            self._set(name, tensor, self._kept[name])
        return prepared

    def _set(self, name: str, tensor: torch.Tensor, kept: torch.Tensor) -> None:
        if tensor.shape != kept.shape or tensor.dtype != kept.dtype:
            old, new = (f"{value.dtype}{list(value.shape)}" for value in (kept, tensor))
            if self.request.records:
                raise OtherValuesError(f"{name} is {old} in one object and {new} in the next one")
            raise OtherValuesError(f"{name} is {old} with the earlier version and {new} with the later one")
        if _bits_equal(tensor.detach().cpu(), kept):
            return
        self.notes[_OTHER_VALUES] = None
        try:
            with torch.no_grad():
                tensor.copy_(kept)
        except RuntimeError as error:  # elements that share memory, or a tensor of inference mode
            raise OtherValuesError(f"{name} cannot get the earlier values: {first_line(error)}") from None

    @property
    def _sides(self) -> str:
        return "objects" if self.request.records else "versions"

    def _eager(self) -> CallResults | None:
        with self.state.step("call", f"{self.text} (eager)"), eager_mode():
            prepared = self._built()
            return self._result(prepared, prepared.function)

    def _compiled(self) -> CallResults | None:
        prepared = self._built()
        with self.state.step("call", f"{self.text} (compiled)"):
            return self._result(prepared, self.state.compiled_form(prepared))

    def _float64(self) -> tuple[CallResults | None, str]:
        """The results in float64. Modules that the file keeps are as before afterwards: the next call has them, too."""
        restore: list[Callable[[], None]] = []

        def build() -> Prepared:
            prepared = self._built()
            restore.append(restoration(prepared))
            return prepared

        try:
            return float64_results(build)
        finally:
            for each in restore:
                each()

    def _result(self, prepared: Prepared, function: Callable[..., Any]) -> CallResults | None:
        """The results of a call; a failure is one of the run."""
        try:
            return of_call(prepared, function)
        except Exception as error:  # noqa: BLE001 - user code may raise anything
            if not self.state.stopped:
                self.state.failures.append(child.failure_of(self.state, error))
            return None

    def _compared(
        self, given: CallResults, expected: CallResults, double: CallResults | None, why: str = ""
    ) -> Accuracy:
        if self.varying and self.varying != RANDOM:
            return rules.varying(self.varying)
        return rules.compare_results(given, expected, double, training=self.is_training, no_float64=why)

    def _compared_eager(
        self, given: CallResults, expected: CallResults, double: CallResults | None, why: str = ""
    ) -> Accuracy:
        """Compare results of both versions."""
        verdict = self._compared(given, expected, double, why)
        if verdict.passed is False and self.varying == RANDOM:
            return rules.not_compared(_DRAWS)
        return verdict

    def _compared_exactly(self, given: CallResults | None, expected: CallResults | None) -> Accuracy | None:
        """Compare results in float64, where rounding is far below any tolerance."""
        return None if given is None or expected is None else self._compared_eager(given, expected, expected)

    def _compared_compiled(
        self, side: Mapping[str, CallResults | None], later: CallResults | None
    ) -> Accuracy | None:
        """Compare compiled results of a side with its eager ones; `later`: eager ones of this release."""
        eager, compiled = side[EAGER], side[COMPILED]
        if eager is None or compiled is None:
            return None
        verdict = self._compared(compiled, eager, side[FLOAT64])
        if verdict.passed is False and self.varying == RANDOM:
            return rules.not_compared(
                "the compiled code may draw its random numbers in another order than eager"
            )
        if verdict.passed is False and later is not None and _is_equal(eager, later):
            return self._on_edge(verdict, compiled, later)
        return verdict

    def _on_edge(self, verdict: Accuracy, other: CallResults, eager: CallResults) -> Accuracy:
        """The verdict, passed if `eager`, of this release, moves as far as `other` by other rounding."""
        return with_rounding(verdict, other, eager, self._with_noise)

    def _with_noise(self, seed: int) -> CallResults | None:
        """The results of this release in eager mode, with other rounding; None if the call refuses that."""
        try:
            with self.state.step("call", f"{self.text} (eager)"), eager_mode(), RoundingNoise(seed):
                prepared = self._built()
                return of_call(prepared, prepared.function)
        except Exception:  # noqa: BLE001 - an operator or a subclass of the user's may refuse a mode
            return None

    def _path(self, mode: str) -> str:
        return os.path.join(self.request.folder, f"{self.index}-{mode}.pt")

    def _save(self, mode: str, given: CallResults | None) -> None:
        if given is not None:
            given.save(self._path(mode))

    def _load(self, mode: str) -> CallResults | None:
        path = self._path(mode)
        return results.load(path) if os.path.exists(path) else None


def _inductor(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **asked: Any) -> Callable[..., Any]:
    """Inductor with its default options: those of the user's calls are for a device or for speed."""
    del asked
    compiled: Callable[..., Any] = targets.backend_named("inductor")(gm, example_inputs)
    return compiled


def _is_equal(given: CallResults, expected: CallResults) -> bool:
    """Whether both have the same values, bit for bit."""
    ours = {value.name: value for value in given.values}
    return len(ours) == len(expected.values) and all(
        value.name in ours
        and ours[value.name].dtype == value.dtype
        and _bits_equal(ours[value.name].tensor, value.tensor)
        for value in expected.values
    )


def _bits_equal(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether all elements have the same bits; NaN is equal to NaN. Zeros of other signs are not equal."""
    if tensor.shape != other.shape or tensor.dtype != other.dtype:
        return False
    if tensor.layout is not torch.strided or tensor.is_quantized:
        return False
    if torch.equal(_bytes(tensor), _bytes(other)):
        return True
    if not tensor.is_floating_point() and not tensor.is_complex():
        return False
    try:
        ours, theirs = _wide(tensor), _wide(other)
    except RuntimeError:  # a dtype that torch only stores
        return False
    same = (ours == theirs) & (ours.signbit() == theirs.signbit()) | (ours.isnan() & theirs.isnan())
    return bool(same.all())


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.resolve_conj().resolve_neg().contiguous().reshape(-1).view(torch.uint8)


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    """The same values as numbers that torch compares: not each narrow type can be compared."""
    if tensor.is_complex():
        return torch.view_as_real(tensor.resolve_conj().to(torch.complex128))
    return tensor.double()


def _error(given: CallResults | None, double: CallResults | None) -> float | None:
    """The largest error of any result, as a part of the largest element of its float64 result."""
    if given is None or double is None:
        return None
    references = {value.name: value for value in double.values}
    errors = [
        _error_of(value.tensor, references[value.name].tensor)
        for value in given.values
        if value.name in references
    ]
    known = [error for error in errors if error is not None]
    return max(known) if known else None


def _error_of(tensor: torch.Tensor, reference: torch.Tensor) -> float | None:
    if not tensor.is_floating_point() or tensor.shape != reference.shape or not tensor.numel():
        return None
    difference = (tensor.double() - reference.double()).abs()
    finite = difference[difference.isfinite()]
    largest = reference.double()[reference.isfinite()].abs()
    scale = float(largest.max()) if largest.numel() else 0.0
    error = float(finite.max()) / scale if finite.numel() and scale else None
    return error if error is not None and math.isfinite(error) else None
