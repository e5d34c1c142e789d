"""Calls a target in eager mode and compiled, with several values, and compares each call with the text before a change.

The old text runs first, in another child of the host, and leaves a record of each call in a folder. Two processes and
not one: state that the user's modules keep, operators that they register and functions that they replace at import
belong to one text only. Invariant: both start equal. The same seed is set before each build and each call, a build is
never used twice, and modules that the file keeps are restored. Nothing is compared if the old text differs from itself.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from fuselight.adapters.torch_api import settings
from fuselight.adapters.torch_api.dynamo import targets
from fuselight.capture import dynamo
from fuselight.capture.calls.calls import PlannedCall, Prepared, call_mode, call_outputs, module_of
from fuselight.capture.calls.present_device import uses_gpu
from fuselight.capture.calls.random_fill import quick_random
from fuselight.capture.calls.rungs import Answered, Silent
from fuselight.capture.calls.tensors import SEED, set_seeds, tensors_in
from fuselight.measure.measured_call import modules_of, with_inputs
from fuselight.shared.inputs import UserCallError
from fuselight.shared.protocol import RunRequest, VerifyRequest
from fuselight.shared.report import Aspect, Call, CallComparison, Difference, Verification
from fuselight.shared.report.failure import first_line
from fuselight.worker.child import child, run_failures
from fuselight.worker.child.line_watch import LineWatch
from fuselight.worker.child.request_results import VerifiedCalls
from fuselight.worker.child.selections import SelectionWatch
from fuselight.worker.child.state import RunState, keep, put
from fuselight.worker.child.target_run import Climb
from fuselight.worker.live.call_records import (
    CallRecord,
    RecordingStream,
    load_record,
    record_call,
    without_printed,
    without_reached,
)
from fuselight.worker.live.record_comparison import (
    MeasuredRounding,
    agree_in_float64,
    compare_records,
    has_vanishing_gradients,
)
from fuselight.worker.verify.case_caller import CaseCaller, ModuleModes, NothingToCompareError, check_values
from fuselight.worker.verify.case_folder import ABOUT
from fuselight.worker.verify.eager_mode import DoubleConversions, eager_mode
from fuselight.worker.verify.further_calls import FurtherCalls
from fuselight.worker.verify.input_changes import call_in_float64

_SPECIAL = {"NaN": math.nan, "infinity": math.inf, "negative infinity": -math.inf}


@dataclass(frozen=True)
class Draw:
    """The values of one round of calls."""

    name: str
    """`recorded inputs`."""
    seed: int = SEED
    special: float | None = None
    """Put into the first element of each floating-point input."""


@dataclass(frozen=True)
class VanishingDifference:
    """A comparison in which only gradients near zero differ: the call in float64 decides."""

    place: int
    """Index of the comparison."""
    index: int
    draw: Draw
    single: CallRecord
    """The call of the old text in eager mode."""
    differences: tuple[Difference, ...]
    """Its differences, as rounding."""


_RECORDED = Draw("recorded inputs")
_DRAWS = (_RECORDED, Draw("other values 1", SEED + 1), Draw("other values 2", SEED + 2))
_NON_FINITE = tuple(Draw(name, special=value) for name, value in _SPECIAL.items())


@dataclass
class VerifyCalls:
    """Records the calls of the old text, or compares those of the new text (target_run.RunStrategy)."""

    runs_main: bool = False
    streams: tuple[RecordingStream, RecordingStream] = field(init=False)

    @contextlib.contextmanager
    def compiling(self, state: RunState) -> Iterator[dynamo.CompileCalls]:
        """Capture as a run of tier capture does, with standard streams that can be recorded."""
        request = state.job.request
        uses_inductor = isinstance(request, VerifyRequest) and request.inductor
        before = sys.stdout, sys.stderr
        self.streams = (RecordingStream(before[0]), RecordingStream(before[1]))
        sys.stdout, sys.stderr = self.streams
        try:
            with (
                settings.inductor_in_this_process() if uses_inductor else contextlib.nullcontext(),
                dynamo.capture_only(_backend(request)) as calls,
            ):
                yield calls
        finally:
            sys.stdout, sys.stderr = before

    def use(self, state: RunState, answered: Answered, climb: Climb, names: Mapping[str, Any]) -> None:
        """As in RunStrategy."""
        request = state.job.request
        if not isinstance(request, VerifyRequest):
            raise TypeError(f"{type(request).__name__} does not say what to compare with")
        result = state.result = VerifiedCalls()
        if request.cases:
            caller = CaseCaller(state, climb, names, self.streams, [answered], _line_watch(request))
            FurtherCalls(result, request, caller).make()
            return
        calls = _Calls(state, result, request, climb, names, self.streams, available=[answered])
        try:
            if request.records:
                calls.record()
            else:
                calls.compare()
        except NothingToCompareError as why:
            result.verification = replace(result.so_far, refused=str(why))
            if request.records:
                calls.write_about()


@dataclass
class _Calls:
    """The rounds of calls of one text."""

    state: RunState
    result: VerifiedCalls
    request: VerifyRequest
    climb: Climb
    names: Mapping[str, Any]
    streams: tuple[RecordingStream, RecordingStream]
    available: list[Answered]
    """The first answer of the ladder, until it is used: what a provider returned may have taken long to make."""
    notes: dict[str, None] = field(default_factory=dict)
    printed_varies: bool = False
    selections: SelectionWatch = field(init=False)
    """The branches that became a torch.where."""
    lines: LineWatch = field(init=False)
    """What runs of the changed files."""
    _vanishing: list[VanishingDifference] = field(default_factory=list)
    _checksums: dict[int, tuple[float, ...]] = field(default_factory=dict)
    """Of the recorded inputs, by call: to see whether another seed gives other values."""
    _kept: dict[torch.nn.Module, dict[str, torch.Tensor]] = field(default_factory=dict)
    """Parameters and buffers of the modules that the file keeps in globals, as they were after the import."""

    def __post_init__(self) -> None:
        self.selections = SelectionWatch(self.request.target.path, self.request.overlays)
        self.lines = _line_watch(self.request)
        for module in self.names.values():
            if isinstance(module, torch.nn.Module):
                state = module.state_dict(keep_vars=True)
                self._kept[module] = {name: value.detach().clone() for name, value in state.items()}

    @property
    def draws(self) -> tuple[Draw, ...]:
        """The rounds to make."""
        return (*_DRAWS, *_NON_FINITE) if self.request.non_finite else _DRAWS

    # The old text

    def record(self) -> None:
        """Write a record of each call. Raises NothingToCompareError.

        The report has a verification only once all records are complete: a run can be ended before.

        Calls in float64 are for gradients near zero: that of the bias of the keys of an attention is zero by the
        formula, and rounding in float32, which would refuse each change of an attention with projections.
        """
        first = self._write_round(_RECORDED, compiled=False)
        raised = next((record for record in first if record.raised), None)
        if raised is not None:
            raise NothingToCompareError(
                f"the call raises {raised.raised} without torch.compile, too: {raised.message}"
            )
        uncompared = next((words for record in first for words in record.uncompared), "")
        if uncompared:
            raise NothingToCompareError(f"{uncompared}, which cannot be compared")
        if not any(
            record.results.values or record.stdout or record.stderr or record.numbers for record in first
        ):
            raise NothingToCompareError(
                "the call, repeated alone, returns, changes and prints nothing that can be compared"
            )
        records = first + [
            record for draw in self.draws[1:] for record in self._write_round(draw, compiled=False)
        ]
        self._check_repeats(first)
        for draw in self.draws:
            self._write_round(draw, compiled=True)
        for draw in self.draws if any(map(has_vanishing_gradients, records)) else ():
            for index, record in self._round(draw, in_float64=True):
                record.save(self._path(draw, index, "float64"))
        self.result.verification = Verification(notes=tuple(self.notes), lines_run=self.lines.lines_run)
        self.write_about()

    def _write_round(self, draw: Draw, *, compiled: bool) -> list[CallRecord]:
        records = []
        for index, record in self._round(draw, compiled=compiled):
            record.save(self._path(draw, index, _mode(compiled=compiled)))
            records.append(record)
        return records

    def _check_repeats(self, first: list[CallRecord]) -> None:
        """Make the recorded calls again, which must do the same."""
        for (_, again), before in zip(self._round(_RECORDED, compiled=False), first, strict=True):
            records = (without_reached(without_printed(record)) for record in (again, before))
            differences = compare_records(*records, compiled=False)
            real = next((difference for difference in differences if not difference.rounding), None)
            if real is not None:
                raise NothingToCompareError(
                    "the same call with the same seeds does something else the second time, because it keeps state or "
                    f"is random in a way that no seed fixes ({real.text})"
                )
            if (again.stdout, again.stderr) != (before.stdout, before.stderr):
                self.printed_varies = True
                self.notes["printed text is not compared: it differs from call to call"] = None

    def write_about(self) -> None:
        """Write what the run of the new text must know."""
        about = {
            "refused": self.result.so_far.refused,
            "printed_varies": self.printed_varies,
            "selections": sorted(self.selections.lines),
        }
        put(os.path.join(self.request.folder, ABOUT), json.dumps(about).encode())

    # The new text

    def compare(self) -> None:
        """Make each call of the old text, and add the comparisons to the report. Raises NothingToCompareError."""
        try:
            with open(os.path.join(self.request.folder, ABOUT), encoding="utf-8") as file:
                about = json.load(file)
        except (OSError, ValueError):
            raise NothingToCompareError("the text before the change left no results") from None
        self.printed_varies = bool(about["printed_varies"])
        if about["refused"]:
            raise NothingToCompareError(str(about["refused"]))
        self.selections.known.update(about["selections"])
        for compiled in (False, True):
            for draw in self.draws:
                for index, record in self._round(draw, compiled=compiled):
                    self._add(draw, index, record, compiled=compiled)
            self.notes.update(dict.fromkeys(self.selections.notes()))
            self.result.verification = replace(self.result.so_far, lines_run=self.lines.lines_run)
        self._decide_in_float64()

    def _decide_in_float64(self) -> None:
        """Make the calls in which gradients near zero differ again in float64, after all others."""
        for draw in dict.fromkeys(vanishing.draw for vanishing in self._vanishing):
            wide = dict(self._round(draw, in_float64=True))
            for vanishing in self._vanishing:
                try:
                    old = load_record(self._path(draw, vanishing.index, "float64"))
                except FileNotFoundError:  # no gradient of the old text is near zero
                    continue
                if vanishing.draw is draw and agree_in_float64(
                    wide[vanishing.index], old, vanishing.single, vanishing_only=True
                ):
                    so_far, place = self.result.so_far, vanishing.place
                    comparisons = list(so_far.comparisons)
                    comparisons[place] = replace(comparisons[place], differences=vanishing.differences)
                    self.result.verification = replace(so_far, comparisons=tuple(comparisons))

    def _add(self, draw: Draw, index: int, record: CallRecord, *, compiled: bool) -> None:
        """Compare a call with that of the old text in eager mode.

        Compiled, it may also be equal to the old text compiled, which may print in another order than eager mode.
        """
        old = self._old(draw, index, compiled=False)
        if old.raised and draw.special is not None:
            self.notes[f"{draw.name} is not compared: the old text raises {old.raised}"] = None
            differences = None
        else:
            differences = self._compared(draw, index, record, old, compiled=compiled)
            if not _is_rounding(differences):
                rounded = self._compared(draw, index, record, old, compiled=compiled, vanish=True)
                place = len(self.result.so_far.comparisons)
                self._vanishing += (
                    [VanishingDifference(place, index, draw, old, rounded)] if _is_rounding(rounded) else []
                )
        if differences is not None and self.selections.mixed and not compiled:
            differences = (*differences, Difference(Aspect.STRUCTURE, self.selections.mixed))
        before = self.result.so_far
        entry = () if differences is None else (CallComparison(index, draw.name, compiled, differences),)
        notes = tuple(dict.fromkeys((*before.notes, *self.notes)))
        self.result.verification = replace(before, comparisons=(*before.comparisons, *entry), notes=notes)

    def _compared(
        self,
        draw: Draw,
        index: int,
        new: CallRecord,
        old: CallRecord,
        *,
        compiled: bool,
        vanish: bool = False,
    ) -> tuple[Difference, ...]:
        """Compare a call. A compiled one that differs: by the rounding of the old text, and with its compiled call."""
        differences = self._differences(new, old, compiled=compiled, vanish=vanish)
        if not compiled or _is_rounding(differences):
            return differences
        known = self._old(draw, index, compiled=True)
        measured = MeasuredRounding(old, known)
        several = [
            self._differences(new, each, measured, compiled=True, vanish=vanish)
            for each in (old, known)
            if each is old or not known.raised
        ]
        return next(filter(_is_rounding, several), several[0])

    def _old(self, draw: Draw, index: int, *, compiled: bool) -> CallRecord:
        try:
            return load_record(self._path(draw, index, _mode(compiled=compiled)))
        except FileNotFoundError:
            raise NothingToCompareError(f"the old text has no call {index + 1} with {draw.name}") from None

    def _differences(
        self,
        new: CallRecord,
        old: CallRecord,
        measured: MeasuredRounding | None = None,
        *,
        compiled: bool,
        vanish: bool = False,
    ) -> tuple[Difference, ...]:
        if self.printed_varies:
            new, old = without_printed(new), without_printed(old)
        if compiled:  # the old text has made more calls before
            new, old = without_reached(new), without_reached(old)
        return compare_records(new, old, compiled=compiled, measured=measured, vanish=vanish)

    def _path(self, draw: Draw, index: int, mode: str) -> str:
        return os.path.join(self.request.folder, f"{mode}-{self.draws.index(draw)}-{index}.pt")

    # Both

    def _round(
        self, draw: Draw, *, compiled: bool = False, in_float64: bool = False
    ) -> Iterator[tuple[int, CallRecord]]:
        """Build the target and make each of its calls. Raises NothingToCompareError."""
        set_seeds(draw.seed)
        self._restore()
        with contextlib.nullcontext() if compiled else eager_mode():
            try:
                answered = self.available.pop() if self.available else self.climb()
            except Silent as why:
                raise NothingToCompareError(f"the inputs cannot be made again: {why}") from None
            for index, planned in enumerate(answered.calls):
                if planned.fake:
                    raise NothingToCompareError("the directive asks for fake tensors, which have no values")
                watched = (
                    contextlib.nullcontext()
                    if compiled or in_float64
                    else self.lines.watching(has_threads=uses_gpu())
                )
                with watched:
                    record = self._one_call(draw, index, planned, compiled=compiled, in_float64=in_float64)
                yield index, record
        if compiled and draw is _RECORDED:
            self.result.recorded_calls = self.state.recorder.parts()
            keep(self.state)

    def _restore(self) -> None:
        with torch.no_grad():
            for module, saved in self._kept.items():
                for name, tensor in module.state_dict(keep_vars=True).items():
                    if name in saved and saved[name].shape == tensor.shape:
                        tensor.copy_(saved[name])

    def _one_call(
        self, draw: Draw, index: int, planned: PlannedCall, *, compiled: bool, in_float64: bool
    ) -> CallRecord:
        state, is_recorded = self.state, compiled and draw is _RECORDED
        with state.step("build", planned.text, planned.location):
            try:
                with quick_random():
                    prepared = planned.build()
            except UserCallError as fault:
                if is_recorded:
                    failure = run_failures.build_failure(fault, planned, state.job.request, call=index)
                    state.failures.append(failure)
                cause = fault.__cause__ or fault
                words = f"{type(cause).__name__}: {first_line(cause)}"
                raise NothingToCompareError(f"`{planned.text}` cannot be built: {words}") from None
        prepared = self._with_values(prepared, draw, index)
        modes = ModuleModes(prepared) if in_float64 else None
        prepared = call_in_float64(prepared) if in_float64 else prepared
        function = state.compiled_form(prepared) if compiled else prepared.function
        for _, module in modules_of(prepared):
            module.zero_grad(set_to_none=True)
        recorded = state.recorder.call(index) if is_recorded else contextlib.nullcontext()
        with (
            state.step("call", f"{planned.text} ({_mode(compiled=compiled)}, {draw.name})", planned.location),
            call_mode(prepared),
            warnings.catch_warnings(),
            recorded,
            DoubleConversions() if in_float64 else contextlib.nullcontext(),
            contextlib.nullcontext() if compiled or in_float64 else self.selections,
        ):
            if is_recorded:
                self._announce(index, planned, prepared)
            warnings.simplefilter("always")  # else each is printed by the first of several calls alone
            set_seeds(draw.seed)
            make = _caller(prepared, function)
            roots = tuple(state.job.request.roots)
            record, error = record_call(
                prepared,
                self.names,
                self.streams,
                make,
                roots=roots,
                since=state.loaded.last_before(roots),
                compiled=compiled,
            )
        if modes is not None:
            modes.restore()
        check_values(state)
        if is_recorded and error is not None and not state.stopped:
            state.failures.append(child.failure_of(state, error))
        return record

    def _announce(self, index: int, planned: PlannedCall, prepared: Prepared) -> None:
        """Add the call to the report, as a run of tier capture does."""
        state = self.state
        state.calls.append(Call(index, planned.text, planned.location))
        state.notes.extend(planned.notes)
        if index == 0:
            module = module_of(prepared.function)
            state.grad = torch.is_grad_enabled()
            state.training = module.training if module is not None else None
            state.recorder.inspect_target(prepared.function)

    def _with_values(self, prepared: Prepared, draw: Draw, index: int) -> Prepared:
        """The call with the values of the draw."""
        inputs = [tensor for tensor in tensors_in([prepared.args, prepared.kwargs]) if _takes_values(tensor)]
        if draw.special is not None:
            special = draw.special
            return with_inputs(prepared, lambda tensor: _with_special(tensor, special))
        checksums = tuple(float(tensor.detach().double().sum()) for tensor in inputs)
        if draw is _RECORDED:
            self._checksums.setdefault(index, checksums)
        elif not inputs:
            self.notes[
                "no floating-point input: the further draws change parameters, and integers that are drawn at random"
            ] = None
        elif checksums == self._checksums.get(index):
            self.notes[
                "another seed gives the same inputs: random numbers of the same mean and spread were compared, too"
            ] = None
            generator = torch.Generator("cpu").manual_seed(draw.seed)
            return with_inputs(prepared, lambda tensor: _redrawn(tensor, generator))
        return prepared


def _mode(*, compiled: bool) -> str:
    return "compiled" if compiled else "eager"


def _is_rounding(differences: tuple[Difference, ...]) -> bool:
    return all(difference.rounding for difference in differences)


def _backend(request: RunRequest) -> Callable[..., Any]:
    """What runs the graphs: they themselves, Inductor, or for further calls AOTAutograd, which may refuse a graph.

    Inductor has its default options: those of the user's calls are for a device or for speed.
    """
    if not isinstance(request, VerifyRequest) or not (request.inductor or request.cases):
        return dynamo.capture_backend
    compile_graph = targets.backend_named("inductor" if request.inductor else "aot_eager")

    def backend(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **asked: Any) -> Callable[..., Any]:
        del asked
        compiled: Callable[..., Any] = compile_graph(gm, example_inputs)
        return compiled

    return backend


def _line_watch(request: VerifyRequest) -> LineWatch:
    """What runs of the changed files."""
    return LineWatch(request.overlays)


def _caller(prepared: Prepared, function: Callable[..., Any]) -> Callable[[], Any]:
    return lambda: call_outputs(prepared, function)[0]


def _takes_values(tensor: torch.Tensor) -> bool:
    return (
        tensor.is_floating_point()
        and tensor.element_size() > 1
        and tensor.numel() > 0
        and tensor.layout is torch.strided
        and type(tensor) in (torch.Tensor, torch.nn.Parameter)
    )


def _with_special(tensor: torch.Tensor, value: float) -> torch.Tensor:
    if not _takes_values(tensor):
        return tensor
    special = tensor.detach().clone()
    special[(0,) * special.dim()] = value
    return special.requires_grad_(tensor.requires_grad)


def _redrawn(tensor: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    if not _takes_values(tensor):
        return tensor
    redrawn = tensor.detach().clone()
    wide = redrawn.double()
    mean, spread = float(wide.mean()), float(wide.std(correction=0))
    drawn = torch.randn(redrawn.shape, generator=generator, dtype=torch.float64) * (spread or 1.0) + mean
    return redrawn.copy_(drawn).requires_grad_(tensor.requires_grad)
