"""The peaks of one step in its two forms: in eager mode, and with the wrapper that Inductor generates.

Invariant: the second step is recorded: the first one compiles, and makes the state of the optimizer.
"""

from __future__ import annotations

import collections
import contextlib
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from fuselight.adapters.torch_api.gpu_forms import gpu_forms
from fuselight.adapters.torch_api.untraced_libraries import untraced_libraries
from fuselight.adapters.virtual_gpu.attention import eager_attending
from fuselight.adapters.virtual_gpu.replayed import ReplayBackend
from fuselight.shared.report import Device, HolderGrowth, MemoryPeak
from fuselight.shared.report.failure import root_line
from fuselight.worker.memory.held_tensors import LEAST_GROWTH, GrowingNames, keys_of, note_left, program_names
from fuselight.worker.memory.peaks import StepRecord
from fuselight.worker.memory.steps import Step, StepObserver
from fuselight.worker.verify.eager_mode import eager_mode

_WORDS = 300
_FURTHER_STEPS = 2
"""Where a name may grow: the first step may have left another tensor there, as a view."""
_CONTAINERS = frozenset({list, dict, set, collections.deque})


@contextlib.contextmanager
def eager_form(device: Device) -> Iterator[None]:
    """Compile nothing, and run the operators that the device's backend has."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(eager_mode())
        stack.enter_context(untraced_libraries())
        if device.backend != "cpu":
            stack.enter_context(gpu_forms())
            stack.enter_context(eager_attending(device))
        yield


@contextlib.contextmanager
def kept_attributes(module: torch.nn.Module | None) -> Iterator[None]:
    """When the block ends, attributes of the modules are as before, as a cache that its calls have filled."""
    before = [(vars(part), dict(vars(part))) for part in (module.modules() if module is not None else ())]
    containers = {
        id(value): value for _, own in before for value in own.values() if type(value) in _CONTAINERS
    }
    contents = [(value, copy.copy(value)) for value in containers.values()]
    try:
        yield
    finally:
        for value, content in contents:
            value.clear()
            (value.extend if isinstance(value, (list, collections.deque)) else value.update)(content)
        for attributes, own in before:
            attributes.clear()
            attributes.update(own)


class FormPeak(NamedTuple):
    """The peak of eager mode or of the compiled form."""

    peak: MemoryPeak | None
    why_not: str = ""
    """Why there is no peak."""
    record: StepRecord | None = None
    growth: tuple[HolderGrowth, ...] = ()
    """Names that held more after each step."""


@dataclass
class FormEstimator:
    """Makes steps on fake tensors."""

    device: Device
    roots: tuple[str, ...]
    backend: ReplayBackend

    def peak(
        self,
        step: Step,
        function: Callable[..., Any],
        module: torch.nn.Module | None = None,
        *,
        is_stopped: Callable[[], bool] = lambda: False,
    ) -> FormPeak:
        """The peak of a step with `function`, or why the step cannot be made.

        `module`: the one whose parts are followed in eager mode. Raises what ended the step if `is_stopped()` then.
        """
        sizes, target = GrowingNames(), step.prepared.function
        try:
            before = program_names(target, self.roots)
            sizes.add(before)
            step.make(function, StepObserver())
            record = StepRecord.of(step, self.device, self.roots, self.backend.origin_of_buffer)
            left = program_names(target, self.roots)
            sizes.add(left)
            note_left(record.tracker, left, keys_of(before))
            del before, left  # they keep tensors
            with record.tracker, record.modules.following(module):
                step.make(function, record)
            sizes.add(program_names(target, self.roots))
            for _ in range(_FURTHER_STEPS if sizes.may_grow() else 0):
                step.make(function, StepObserver())
                sizes.add(program_names(target, self.roots))
        except Exception as error:  # the user's code, or an operator that needs values
            if is_stopped():
                raise
            return FormPeak(None, root_line(error, _WORDS))
        return FormPeak(record.peak(self.device), record=record, growth=sizes.growth(LEAST_GROWTH))
