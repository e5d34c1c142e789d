"""A run of the target on fake tensors, in eager mode and compiled, that records what each call allocates.

Invariant: what an estimate lacks is a note of the report.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from fuselight.adapters.torch_api import operator_workspaces
from fuselight.adapters.torch_api.distributed.real_meshes import real_meshes
from fuselight.adapters.torch_api.fake_numbers import assumed_numbers, assumed_sizes
from fuselight.adapters.torch_api.fake_parameters import convertible_parameters
from fuselight.adapters.torch_api.recurrent_memory import recurrent_forms
from fuselight.adapters.virtual_gpu.budgets import BudgetCut, forget_compiled, listing_cuts
from fuselight.adapters.virtual_gpu.replayed import ReplayBackend
from fuselight.capture import dynamo
from fuselight.capture.calls.calls import PlannedCall, Prepared, call_mode, module_of, with_training
from fuselight.capture.calls.rungs import Answered
from fuselight.capture.calls.tensors import tensors_in, with_tensors
from fuselight.shared.inputs import UserCallError
from fuselight.shared.protocol import MemoryRequest
from fuselight.shared.report import Call, Device, MemoryChange, MemoryEstimate, MemoryPeak, Note, Report
from fuselight.worker.child import run_failures
from fuselight.worker.child.request_results import RequestResult
from fuselight.worker.child.state import RunState
from fuselight.worker.child.target_run import Climb
from fuselight.worker.memory import savings
from fuselight.worker.memory.forms import FormEstimator, FormPeak, eager_form, kept_attributes
from fuselight.worker.memory.line_changes import changed_lines
from fuselight.worker.memory.peaks import user_line
from fuselight.worker.memory.repeated_blocks import LEAST_OPERATORS, extrapolated, repeated_blocks
from fuselight.worker.memory.steps import Step, parameters_of

_MAX_CALLS = 8
_CONVOLUTIONS = Note(
    "workspaces",
    "The target has convolutions: a library chooses their workspaces when they run. The estimate has copies of their "
    "inputs and results, as they were measured; the library may need more or less.",
)
_RECURRENT = Note(
    "workspaces",
    "The target has recurrent layers: a library chooses their workspaces when they run. The estimate has the largest "
    "that were measured.",
)
_UNKNOWN_RECURRENT = Note(
    "workspaces",
    "The target has recurrent layers with packed sequences or projections: what a library keeps for them is not in the "
    "estimate, which can be several times too low.",
)
_GRAPH_MODES = frozenset({"reduce-overhead", "max-autotune"})
_TUNED_MODES = frozenset({"max-autotune", "max-autotune-no-cudagraphs"})
_CUDA_GRAPHS = Note(
    "workspaces",
    "torch.compile is asked for CUDA graphs: their memory pool keeps what a graph allocates between its calls, beside "
    "eager code, and is not in the estimate.",
)
_AUTOTUNING = Note(
    "workspaces",
    "torch.compile is asked to autotune: while it compiles, each candidate has inputs and outputs of its own, which "
    "are not in the estimate.",
)
_UNMEASURED = (
    "What cuBLAS keeps on this device was not measured, and is not in the estimate (65 MiB on an H200)."
)


@dataclass
class EstimateMemory:
    """Makes each call twice in eager mode and twice compiled (target_run.RunStrategy)."""

    device: Device
    runs_main: bool = False

    @contextlib.contextmanager
    def compiling(self, state: RunState) -> Iterator[dynamo.CompileCalls]:
        """As in RunStrategy."""
        self._result = state.result = EstimatedMemory()
        self._backend = ReplayBackend(self.device)
        is_rank = state.job.request.world is not None
        with (
            real_meshes() if is_rank else contextlib.nullcontext(),
            convertible_parameters(),
            assumed_numbers_of(state),
            self._recurrent_forms(state),
            dynamo.capture_only(self._backend) as asked,
        ):
            yield asked

    def _recurrent_forms(self, state: RunState) -> contextlib.AbstractContextManager[None]:
        """Recurrent layers as on the device; they run as on a CPU where that has not been measured."""

        def used(is_known: bool) -> None:  # noqa: FBT001 - as recurrent_forms has it
            _add_note(state, _RECURRENT if is_known else _UNKNOWN_RECURRENT)

        return recurrent_forms(used) if self.device.backend == "cuda" else contextlib.nullcontext()

    def use(self, state: RunState, answered: Answered, climb: Climb, names: Mapping[str, Any]) -> None:
        """As in RunStrategy."""
        del climb, names
        request = memory_request(state)
        for planned, batch, prepared in built_calls(state, answered):
            tries = request.savings and prepared.options.train
            if tries:
                forget_compiled()  # or nothing would be cut
            with listing_cuts(self.device, savings.BUDGETS if tries else ()) as cuts:
                estimate = self._estimate(state, request, planned, prepared)
            self._result.estimates.append(replace(estimate, batch=batch))
            if tries:
                self._try_savings(state, request, prepared, cuts)

    def _estimate(
        self, state: RunState, request: MemoryRequest, planned: PlannedCall, prepared: Prepared
    ) -> MemoryEstimate:
        training, sizes = prepared.options.train, _DataSizes(state)
        with call_mode(prepared):
            state.grad, state.training = torch.is_grad_enabled(), training
            require_gradients(prepared, training=training)
            step = Step.of(prepared, request.optimizer, training=training)
            first, first_passed = len(self._backend.graphs), len(self._backend.passed)
            with assumed_sizes(sizes.note):
                eager = self._eager(state, step, prepared)
                short = None if sizes.are_read else self._extrapolated(state, step, prepared, eager)
                compiled = short or self._compiled(state, step, prepared)
            lowered, passed = self._backend.graphs[first:], self._backend.passed[first_passed:]
            least: tuple[FormPeak, ...] = ()
            if sizes.are_read:
                with assumed_sizes(sizes.note, least=True):
                    least = self._eager(state, step, prepared), self._compiled(state, step, prepared)
        name = request.optimizer if step.optimizer is not None else ""
        return MemoryEstimate(
            planned.text,
            training,
            name,
            eager=eager.peak,
            compiled=compiled.peak,
            why_not_eager=eager.why_not,
            why_not_compiled=compiled.why_not,
            least_eager=_bytes_of(least[0].peak) if least else None,
            least_compiled=_bytes_of(least[1].peak) if least else None,
            growth=eager.growth or compiled.growth,
            changes=tuple(
                changed_lines(lowered, passed, tuple(request.roots), compiled.record.lines())
                if compiled.record is not None
                else ()
            ),
        )

    def _eager(self, state: RunState, step: Step, prepared: Prepared) -> FormPeak:
        module = module_of(prepared.function)
        with eager_form(self.device), kept_attributes(module):
            return self._peak(state, step, prepared.function, module)

    def _compiled(self, state: RunState, step: Step, prepared: Prepared) -> FormPeak:
        return self._peak(state, step, state.compiled_form(prepared))

    def _extrapolated(
        self, state: RunState, step: Step, prepared: Prepared, eager: FormPeak
    ) -> FormPeak | None:
        """The compiled form of a large target by few of its equal blocks; None where the whole is to be compiled.

        Few blocks must give the peak of eager mode to the byte, which is known.
        """
        request, module = memory_request(state), module_of(prepared.function)
        blocks = repeated_blocks(module)
        is_large = eager.record is not None and len(eager.record.tracker.moments) >= LEAST_OPERATORS
        if blocks is None or not is_large or request.exact or request.world is not None:
            return None

        def short(form: Callable[[RunState, Step, Prepared], FormPeak]) -> FormPeak:
            forget_compiled()
            with kept_attributes(module):
                return form(state, Step.of(prepared, request.optimizer, training=step.training), prepared)

        whole = extrapolated(blocks, functools.partial(short, self._eager), self.device)
        if whole.peak is not None and whole.peak.bytes == _bytes_of(eager.peak):
            whole = extrapolated(blocks, functools.partial(short, self._compiled), self.device)
        elif whole.peak is not None:
            whole = FormPeak(None, "few of them do not give the peak of eager mode")
        forget_compiled()
        if whole.peak is not None:
            return whole
        text = f"All {blocks.label} are compiled, which takes longer: {whole.why_not}."
        _add_note(state, Note("blocks", text))
        return None

    def _try_savings(
        self, state: RunState, request: MemoryRequest, prepared: Prepared, cuts: Sequence[BudgetCut]
    ) -> None:
        """Add what would need less to the last estimate, one by one: a run that is ended keeps what it has."""
        results = self._result.estimates
        with call_mode(prepared), assumed_sizes(lambda: None):
            require_gradients(prepared, training=True)
            step = Step.of(prepared, request.optimizer, training=True)

            before = results[-1].eager
            peaks = savings.StepPeaks(
                step,
                self.device,
                request.roots,
                lambda: self._eager(state, step, prepared)[:2],
                lambda: self._compiled(state, step, prepared)[:2],
                before,
                results[-1].compiled,
                is_padded=any(entry.change is MemoryChange.PADDED for entry in results[-1].changes),
            )
            trial_time = savings.TrialTime(
                time.monotonic() + request.savings_seconds,
                lambda text: state.progress.tell("call", text),
            )
            for saving in savings.tried(peaks, cuts, trial_time):
                known = savings.in_order((*results[-1].savings, saving), before)
                results[-1] = replace(results[-1], savings=known)
            results[-1] = replace(results[-1], untried=tuple(trial_time.untried))

    def _peak(
        self,
        state: RunState,
        step: Step,
        function: Callable[..., Any],
        module: torch.nn.Module | None = None,
    ) -> FormPeak:
        """The peak of one form, with notes on what it lacks."""
        estimator = FormEstimator(self.device, tuple(state.job.request.roots), self._backend)
        form = estimator.peak(step, function, module, is_stopped=lambda: bool(state.stopped))
        if form.record is not None:
            self.note_workspaces(state, form.record.tracker.operators, training=step.training)
            note_unfollowed(state, form.record.tracker.unfollowed)
        return form

    def note_workspaces(self, state: RunState, operators: set[str], *, training: bool) -> None:
        """Say which workspaces are missing from the estimate."""
        notes = [_CONVOLUTIONS] if operator_workspaces.convolves(operators) else []
        if operator_workspaces.recurs(operators) and self.device.backend != "cuda":
            notes.append(_RECURRENT)
        modes = {call.mode for call in state.asked.calls}
        notes += [_CUDA_GRAPHS] if modes & _GRAPH_MODES else []
        notes += [_AUTOTUNING] if modes & _TUNED_MODES else []
        is_gpu = self.device.backend != "cpu"
        if (
            is_gpu
            and operator_workspaces.multiplies(operators)
            and not operator_workspaces.library_workspace(self.device, operators, training=training)
        ):
            notes.append(Note("workspaces", _UNMEASURED))
        state.notes.extend(note for note in notes if note not in state.notes)


_READ = "No values are computed: a number that is read{} is 1, and a branch may go another way."
_DRAWN = (
    "A random number{} is taken as the middle of its range, 0.5 of `torch.rand`: a layer that it may skip runs unless "
    "that is more likely than not."
)
_LARGEST = "A size{} depends on data: the peak is with the largest size."


def assumed_numbers_of(state: RunState) -> contextlib.AbstractContextManager[None]:
    """Numbers that depend on data are assumed, with notes."""
    return assumed_numbers(*(functools.partial(_note_assumed, state, text) for text in (_READ, _DRAWN)))


def note_largest(state: RunState) -> None:
    """Say that a size was assumed, with its line."""
    _note_assumed(state, _LARGEST)


def _note_assumed(state: RunState, text: str) -> None:
    """Say what was assumed, with its line."""
    place = user_line(tuple(state.job.request.roots))
    line = f" on line {place.line}" if place is not None else ""
    _add_note(state, Note("assumed_values", text.format(line), place))


def _add_note(state: RunState, note: Note) -> None:
    if note.text not in [known.text for known in state.notes]:
        state.notes.append(note)


def note_unfollowed(state: RunState, kinds: set[str]) -> None:
    """Say which tensors are missing from the estimate."""
    if kinds:
        text = f"The memory of some tensors is not in the estimate: {', '.join(sorted(kinds))}."
        _add_note(state, Note("unfollowed", text))


@dataclass
class _DataSizes:
    """Whether sizes depend on data, and the notes on their lines."""

    state: RunState
    are_read: bool = False

    def note(self) -> None:
        """A size depends on data."""
        self.are_read = True
        note_largest(self.state)


def _bytes_of(peak: MemoryPeak | None) -> int | None:
    return peak.bytes if peak is not None else None


class EstimatedMemory(RequestResult):
    """The estimates so far."""

    def __init__(self) -> None:
        self.estimates: list[MemoryEstimate] = []

    def complete_report(self, report: Report) -> Report:
        """As in RequestResult."""
        return replace(report, memory=tuple(self.estimates))


def memory_request(state: RunState) -> MemoryRequest:
    """The request of the run."""
    request = state.job.request
    if not isinstance(request, MemoryRequest):
        raise TypeError(f"{type(request).__name__} does not ask for memory")
    return request


def built_calls(state: RunState, answered: Answered) -> Iterator[tuple[PlannedCall, int | None, Prepared]]:
    """Each call of the target that is wanted with its batch, once it is built; up to one that cannot be built."""
    request = memory_request(state)
    calls: list[tuple[PlannedCall, int | None]] = [(call, None) for call in answered.calls[:_MAX_CALLS]]
    if request.batches:
        calls = [(answered.calls[0], batch) for batch in request.batches]
    for index, (planned, batch) in enumerate(calls):
        state.calls.append(Call(index, planned.text, planned.location))
        with state.step("build", planned.text, planned.location):
            try:
                prepared = with_training(planned, training=request.training).build()
            except UserCallError as error:
                state.failures.append(run_failures.build_failure(error, planned, request, call=index))
                return
        if batch is not None:
            prepared = with_batch(prepared, batch)
        with state.step("call", planned.text, planned.location):
            yield planned, batch, prepared


def with_batch(prepared: Prepared, batch: int) -> Prepared:
    """The call with inputs whose first size is `batch`: of each tensor that has the first size of the first one."""
    tensors = [tensor for tensor in tensors_in([prepared.args, prepared.kwargs]) if tensor.dim()]
    if not tensors:
        return prepared
    first = tensors[0].shape[0]

    def resized(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.dim() or tensor.shape[0] != first:
            return tensor
        return tensor.new_empty((batch, *tensor.shape[1:])).requires_grad_(tensor.requires_grad)

    args, kwargs = with_tensors((prepared.args, prepared.kwargs), resized)
    return replace(prepared, args=args, kwargs=kwargs)


def require_gradients(prepared: Prepared, *, training: bool) -> None:
    """A function without parameters is trained through its inputs, as in a capture."""
    if not training or parameters_of(prepared):
        return
    for tensor in tensors_in([prepared.args, prepared.kwargs]):
        if tensor.is_leaf and (tensor.is_floating_point() or tensor.is_complex()):
            tensor.requires_grad_()
