"""A run of a whole `__main__` block on fake tensors that records what its training steps, or all of it, allocate.

Invariant: what the program does is not changed up to the end of its third optimizer step, which ends it. The first
steps compile and make the state of the optimizer.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from fuselight.adapters.torch_api import program_hooks, settings
from fuselight.adapters.torch_api.fake_numbers import assumed_sizes
from fuselight.adapters.torch_api.fake_parameters import convertible_parameters
from fuselight.adapters.torch_api.gpu_forms import list_optimizers
from fuselight.adapters.torch_api.storages import Storage, StorageTracker
from fuselight.adapters.virtual_gpu.replayed import BufferOrigin
from fuselight.capture import dynamo
from fuselight.capture.dynamo import stacks
from fuselight.shared.report import Device, MemoryEstimate, MemoryPeak, MemoryUse, StepPhase
from fuselight.shared.report.failure import first_line
from fuselight.worker.child.state import RunState
from fuselight.worker.child.target_run import guarded, run_main_again, run_target
from fuselight.worker.child.tensor_holders import HeldStorages
from fuselight.worker.memory.estimate_run import (
    EstimateMemory,
    assumed_numbers_of,
    note_largest,
    note_unfollowed,
)
from fuselight.worker.memory.forms import eager_form
from fuselight.worker.memory.held_tensors import (
    LEAST_GROWTH,
    GrowingNames,
    holders_of,
    label_held,
    program_names,
    set_held,
)
from fuselight.worker.memory.modules import ModuleStack
from fuselight.worker.memory.origins import StorageOrigin
from fuselight.worker.memory.peaks import peak_of, tracker_for

_STEPS = 3
"""Steps of one optimizer after which the program has shown what it needs."""
_WORDS = 300
_DONATED = "compiled with non-empty donated buffers"
"""What a backward says that keeps its graph: torch, which compiles at the first backward, then does without them."""
_MORE = 1.1
"""Holders are searched when so many times what was allocated at the last search is."""


class StepsRecordedError(BaseException):
    """Raised in the program to end it."""


@dataclass
class ProgramRecord:
    """Follows the tensors of a program, and what each is to it."""

    tracker: StorageTracker[StorageOrigin]
    roots: tuple[str, ...] = ()
    sizes: GrowingNames = field(default_factory=GrowingNames)
    """After each step of an optimizer."""
    optimizer: str = ""
    training: bool = False
    _steps: Counter[int] = field(default_factory=Counter)
    _modules: weakref.WeakSet[torch.nn.Module] = field(default_factory=weakref.WeakSet)
    _saved: dict[int, Any] = field(default_factory=dict)
    _held: dict[int, tuple[Storage[StorageOrigin], str]] = field(default_factory=dict)
    """What names led to when more was allocated than before."""
    _searched_at: float = 0.0

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        """Record while the program runs, and end it after some steps."""
        self.tracker.phase = StepPhase.FORWARD.value
        hooks = program_hooks.ProgramHooks(
            self._module_changed,
            self._backward_begins,
            self._backward_ended,
            self._step_begins,
            self._step_ended,
        )
        try:
            with hooks.hearing(), self.tracker:
                yield
        except StepsRecordedError:
            pass
        finally:
            self._label_modules()
            for storage, holder in () if self.training else self._held.values():
                set_held(storage, holder)

    def note_holders(self) -> None:
        """An operator runs: until the first backward, names may keep what no backward will free."""
        if not self.training and self.tracker.allocated > self._searched_at * _MORE:
            self._searched_at = self.tracker.allocated
            names = [held for held in self._names() if not held.is_variable]
            self._held.update(
                (id(storage), (storage, holder)) for storage, holder in holders_of(self.tracker, names)
            )

    def _module_changed(self, module: torch.nn.Module, new: torch.Tensor | None) -> None:
        self._modules.add(module)
        if new is None:
            self._label_modules([module])
        else:
            is_parameter = isinstance(new, torch.nn.Parameter)
            self._label([new], MemoryUse.PARAMETER if is_parameter else MemoryUse.BUFFER)

    def _label_modules(self, modules: Iterable[torch.nn.Module] | None = None) -> None:
        for module in self._modules if modules is None else modules:
            self._label(module.parameters(recurse=False), MemoryUse.PARAMETER)
            self._label(module.buffers(recurse=False), MemoryUse.BUFFER)

    def _label(self, tensors: Iterable[torch.Tensor], use: MemoryUse) -> None:
        for storage in self.tracker.storages_of(tensors):
            storage.use = use
            if use in {MemoryUse.PARAMETER, MemoryUse.BUFFER, MemoryUse.OPTIMIZER}:
                storage.place, storage.is_before = None, True

    def _names(self) -> list[HeldStorages]:
        """The names of the program, with the variables of the functions that run."""
        return program_names(None, self.roots, stacks.frames_from(sys._getframe(1)))  # noqa: SLF001 - as in peaks

    def _backward_begins(self, outputs: list[torch.Tensor]) -> None:
        self.training = True
        label_held(self.tracker, self._names(), outputs)
        for storage in self.tracker.alive():
            if not storage.use:
                storage.use = MemoryUse.SAVED.value
                self._saved[id(storage)] = storage
        self.tracker.phase = StepPhase.BACKWARD.value

    def _backward_ended(self) -> None:
        self._label_modules()
        for module in self._modules:
            gradients = (parameter.grad for parameter in module.parameters(recurse=False))
            self._label((grad for grad in gradients if grad is not None), MemoryUse.GRADIENT)
        self.tracker.phase = StepPhase.FORWARD.value

    def _step_begins(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = type(optimizer).__name__.lower()
        self.tracker.phase = StepPhase.OPTIMIZER.value
        self.tracker.forget_lines()
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        self._label(parameters, MemoryUse.PARAMETER)
        grads = (parameter.grad for parameter in parameters)
        self._label((grad for grad in grads if grad is not None), MemoryUse.GRADIENT)

    def _step_ended(self, optimizer: torch.optim.Optimizer) -> None:
        states = (value for state in optimizer.state.values() for value in state.values())
        self._label((value for value in states if isinstance(value, torch.Tensor)), MemoryUse.OPTIMIZER)
        self.tracker.phase = StepPhase.FORWARD.value
        self.sizes.add(self._names())
        self._steps[id(optimizer)] += 1
        if self._steps[id(optimizer)] >= _STEPS:
            raise StepsRecordedError

    def peak(self, device: Device) -> MemoryPeak:
        """The moment with most bytes of all that ran."""
        return peak_of(self.tracker, self._saved.values(), device, training=self.training)


@dataclass
class EstimateProgram(EstimateMemory):
    """Runs the program as it compiles itself, with Inductor's wrapper for the device (target_run.RunStrategy)."""

    runs_main: bool = True

    @contextlib.contextmanager
    def compiling(self, state: RunState) -> Iterator[dynamo.CompileCalls]:
        """As in RunStrategy."""
        with super().compiling(state) as asked:
            self.start_record(state, self._backend.origin_of_buffer)
            yield asked

    def start_record(self, state: RunState, origin_of_buffer: Callable[[], BufferOrigin | None]) -> None:
        """Record the next run of the program."""
        roots = tuple(state.job.request.roots)
        tracker = tracker_for(
            self.device,
            roots,
            ModuleStack(),
            origin_of_buffer,
            on_operator=self._note_holders,
        )
        self.record = ProgramRecord(tracker, roots)
        state.around_main = functools.partial(self._around, state, self.record)

    def _note_holders(self) -> None:
        self.record.note_holders()

    @contextlib.contextmanager
    def _around(self, state: RunState, record: ProgramRecord) -> Iterator[None]:
        is_gpu = self.device.backend != "cpu"
        with (
            assumed_sizes(functools.partial(note_largest, state)),
            list_optimizers() if is_gpu else contextlib.nullcontext(),
            record.recording(),
        ):
            yield

    def add_estimate(self, state: RunState, compiled: MemoryPeak | None, why_not: str) -> None:
        """Add the program's estimate; `record` is that of its run in eager mode."""
        note_unfollowed(state, self.record.tracker.unfollowed)
        self.note_workspaces(state, self.record.tracker.operators, training=self.record.training)
        self._result.estimates.append(
            MemoryEstimate(
                "__main__",
                self.record.training,
                self.record.optimizer,
                eager=self.record.peak(self.device) if self.record.tracker.moments else None,
                compiled=compiled,
                why_not_compiled=why_not,
                growth=self.record.sizes.growth(LEAST_GROWTH),
            )
        )


def estimate_program(state: RunState, device: Device) -> None:
    """Run the program compiled and in eager mode, and estimate both."""
    program = EstimateProgram(device)
    run_target(state, program)
    if any(_DONATED in failure.message for failure in state.failures):
        state.failures.clear()
        settings.set_torch_setting("torch._functorch.config.donated_buffer", value=False)
        with program.compiling(state):
            guarded(state, functools.partial(run_main_again, state))
    compiled, why_not, failures = None, "", list(state.failures)
    if failures:
        why_not = first_line(Exception(failures[0].message))[:_WORDS]
        state.failures.clear()
    elif program.record.tracker.moments:
        compiled = program.record.peak(device)

    def again() -> None:
        program.start_record(state, lambda: None)
        with eager_form(device):
            run_main_again(state)

    with convertible_parameters(), assumed_numbers_of(state):
        guarded(state, again)
    if not state.failures:
        program.add_estimate(state, compiled, why_not)
