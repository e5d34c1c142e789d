"""A run of the target on the device of its tensors, in eager mode and compiled, that measures what each step allocates.

Invariant: the second step is measured: the first one compiles, tunes, and makes the state of the optimizer.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from fuselight.adapters.torch_api import allocator_history, settings
from fuselight.adapters.torch_api.allocator_history import generated_buffers, recorded_history
from fuselight.adapters.torch_api.dynamo import targets
from fuselight.adapters.torch_api.storages import StorageTracker
from fuselight.adapters.virtual_gpu.codegen import mode_options
from fuselight.adapters.virtual_gpu.replayed import BufferOrigin
from fuselight.capture import dynamo
from fuselight.capture.calls.calls import PlannedCall, Prepared, call_mode
from fuselight.capture.calls.present_device import present_device
from fuselight.capture.calls.rungs import Answered
from fuselight.capture.calls.tensors import tensors_in
from fuselight.capture.dynamo import stacks
from fuselight.shared.devices import find
from fuselight.shared.report import Location, MeasuredMemory, MemoryEstimate
from fuselight.shared.report.failure import root_line
from fuselight.worker.child.state import RunState
from fuselight.worker.child.target_run import Climb
from fuselight.worker.memory.estimate_run import (
    EstimatedMemory,
    built_calls,
    memory_request,
    require_gradients,
)
from fuselight.worker.memory.measured_peaks import measured_peak
from fuselight.worker.memory.origins import StorageOrigin
from fuselight.worker.memory.peaks import StepRecord
from fuselight.worker.memory.steps import Step, StepObserver, parameters_of
from fuselight.worker.verify.eager_mode import eager_mode

_WORDS = 300


@dataclass
class MeasureMemory:
    """Makes each call twice in eager mode and twice compiled, on real tensors (target_run.RunStrategy)."""

    runs_main: bool = False

    @contextlib.contextmanager
    def compiling(self, state: RunState) -> Iterator[dynamo.CompileCalls]:
        """As in RunStrategy."""
        self._result = state.result = EstimatedMemory()
        self._tracker: StorageTracker[StorageOrigin] | None = None
        with (
            settings.inductor_without_workers(),
            generated_buffers(self._hear),
            dynamo.capture_only(_inductor) as asked,
        ):
            yield asked

    def use(self, state: RunState, answered: Answered, climb: Climb, names: Mapping[str, Any]) -> None:
        """As in RunStrategy."""
        del climb, names
        for planned, batch, prepared in built_calls(state, answered):
            self._result.estimates.append(replace(self._measured(state, planned, prepared), batch=batch))

    def _hear(self, buffer: torch.Tensor) -> None:
        if self._tracker is not None:
            self._tracker.accept_buffer(buffer)

    def _measured(self, state: RunState, planned: PlannedCall, prepared: Prepared) -> MemoryEstimate:
        training, request = prepared.options.train, memory_request(state)
        device = device_of(prepared)
        state.device = (present_device(device.index) if device.type == "cuda" else None) or find("cpu")
        with call_mode(prepared):
            state.grad, state.training = torch.is_grad_enabled(), training
            require_gradients(prepared, training=training)
            step = Step.of(prepared, request.optimizer, training=training)
            with eager_mode():
                eager, why_not = self._peak(state, step, prepared.function, device)
            compiled, why_not_compiled = self._peak(state, step, state.compiled_form(prepared), device)
        return MemoryEstimate(
            planned.text,
            training,
            measured_eager=eager,
            measured_compiled=compiled,
            why_not_measured=why_not or why_not_compiled,
        )

    def _peak(
        self, state: RunState, step: Step, function: Callable[..., Any], device: torch.device
    ) -> tuple[MeasuredMemory | None, str]:
        roots = tuple(state.job.request.roots)
        try:
            step.make(function, StepObserver())
            record = StepRecord.of(step, find("cpu"), roots, _origin_of_generated, addresses=True)
            self._tracker = record.tracker
            with recorded_history(device) as history, record.tracker:
                step.make(function, record)
            return measured_peak(history, record.tracker.every, functools.partial(_line_of, roots)), ""
        except Exception as error:  # the user's code, or memory that runs out
            if state.stopped:
                raise
            return None, root_line(error, _WORDS)
        finally:
            self._tracker = None


def device_of(prepared: Prepared) -> torch.device:
    """The device of the target's tensors: a GPU if any is on one."""
    tensors = [*parameters_of(prepared), *tensors_in([prepared.args, prepared.kwargs])]
    return next((tensor.device for tensor in tensors if tensor.device.type == "cuda"), torch.device("cpu"))


def _inductor(gm: torch.fx.GraphModule, example_inputs: Sequence[Any], **asked: Any) -> Callable[..., Any]:
    """Inductor with the options that the user's call asks for, as the estimate has them."""
    options = dict(asked.get("options") or {})
    options.pop("backend", None)
    options = {**mode_options(options.pop("mode", None)), **options}
    compiled: Callable[..., Any] = targets.backend_named("inductor")(
        gm, example_inputs, config_patches=options or None
    )
    return compiled


def _origin_of_generated() -> BufferOrigin | None:
    """Where the buffer comes from that generated code makes now; None outside of it."""
    frame: Any = sys._getframe(1)  # noqa: SLF001 - the documented way to walk the caller's stack
    while frame is not None:
        path = frame.f_code.co_filename
        if allocator_history.is_generated(path):
            frames = allocator_history.generated_frames(path, frame.f_lineno)
            lines = (f'File "{file}", line {line}, in {name}' for file, line, name in reversed(frames))
            return BufferOrigin("\n".join(lines), "")
        frame = frame.f_back
    return None


def _line_of(roots: tuple[str, ...], frames: Sequence[tuple[str, int]]) -> Location | None:
    """The innermost line of the user's: frames of generated code are followed by those that it stands for."""
    return next(
        (
            Location(stacks.absolute(path), line)
            for path, line in frames
            if stacks.is_user_code(path, roots) and not stacks.is_ours(path)
        ),
        None,
    )
