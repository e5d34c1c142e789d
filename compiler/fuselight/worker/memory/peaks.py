"""What is allocated during a step, and the moment with most of it, by line.

Invariant: the parts of a peak add up to it.
"""

from __future__ import annotations

import collections
import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import CodeType
from typing import Any

import torch

from fuselight.adapters.torch_api import operator_workspaces
from fuselight.adapters.torch_api.storages import PeakMoment, Storage, StorageTracker
from fuselight.capture.calls.tensors import tensors_in
from fuselight.capture.dynamo import stacks
from fuselight.shared.report import Device, HeldMemory, Location, MemoryPeak, MemoryUse, StepPhase
from fuselight.worker.memory.steps import Step, buffers_of, parameters_of


@dataclass
class StepRecord:
    """Follows the storages of one step (steps.StepObserver)."""

    tracker: StorageTracker[Location]
    step: Step
    saved: list[Storage[Location]] = field(default_factory=list)

    @classmethod
    def of(
        cls, step: Step, device: Device, roots: Sequence[str], trace_of_buffer: Callable[[], str | None]
    ) -> StepRecord:
        """`trace_of_buffer`: of the buffer that generated code makes now (virtual_gpu.replayed)."""
        has_gpu = device.backend != "cpu"
        tracker: StorageTracker[Location] = StorageTracker(
            functools.partial(user_line, tuple(roots)),
            functools.partial(_line_of_buffer, tuple(roots), trace_of_buffer),
            rounding=operator_workspaces.ROUNDING if has_gpu else 1,
            inside=operator_workspaces.inside_operator if has_gpu else (lambda *_: 0),
        )
        prepared = step.prepared
        tracker.note(parameters_of(prepared), MemoryUse.PARAMETER)
        tracker.note(buffers_of(prepared), MemoryUse.BUFFER)
        tracker.note(step.state_tensors(), MemoryUse.OPTIMIZER)
        tracker.note(tensors_in([prepared.args, prepared.kwargs]), MemoryUse.INPUT)
        return cls(tracker, step)

    def began(self, phase: StepPhase) -> None:
        """As in StepObserver."""
        self.tracker.phase = phase.value
        if phase is StepPhase.OPTIMIZER:
            self.tracker.forget_lines()  # a step of the optimizer is on none

    def forward_ended(self, outputs: list[torch.Tensor]) -> None:
        """As in StepObserver."""
        for storage in self.tracker.storages_of(outputs):
            storage.use = storage.use or MemoryUse.OUTPUT
        for storage in self.tracker.alive():
            if not storage.use and self.step.training:
                storage.use = MemoryUse.SAVED
                self.saved.append(storage)

    def backward_ended(self) -> None:
        """As in StepObserver."""
        for storage in self.tracker.storages_of(self.step.gradients()):
            storage.use = MemoryUse.GRADIENT

    def peak(self, device: Device) -> MemoryPeak:
        """The moment with most bytes, with what libraries keep."""
        moment = self.tracker.peak
        held = _by_line(moment.alive)
        if moment.inside:
            held.append(HeldMemory(MemoryUse.INSIDE, moment.inside, 1, moment.place))
        library = operator_workspaces.library_workspace(
            device, self.tracker.operators, training=self.step.training
        )
        if library:
            held.append(HeldMemory(MemoryUse.LIBRARY, library, 1, None))
        held.sort(key=lambda row: -row.bytes)
        return MemoryPeak(
            moment.bytes + library,
            sum(storage.bytes for storage in moment.alive if storage.is_before),
            StepPhase(moment.phase or StepPhase.FORWARD),
            _operator(moment),
            moment.place,
            tuple(held),
            tuple(sorted(_by_line(self.saved), key=lambda row: -row.bytes)),
        )


def _by_line(storages: Iterable[Storage[Location]]) -> list[HeldMemory]:
    sizes: collections.Counter[tuple[str, Location | None]] = collections.Counter()
    counts: collections.Counter[tuple[str, Location | None]] = collections.Counter()
    for storage in storages:
        key = storage.use or MemoryUse.TEMPORARY.value, storage.place
        sizes[key] += storage.bytes
        counts[key] += 1
    return [
        HeldMemory(MemoryUse(use), size, counts[use, place], place) for (use, place), size in sizes.items()
    ]


def _operator(moment: PeakMoment[Location]) -> str:
    return moment.operator


def user_line(roots: tuple[str, ...]) -> Location | None:
    """The innermost line of the user's that runs, else of a third party's."""
    other: Any = None
    frame: Any = sys._getframe(1)  # noqa: SLF001 - the documented way to walk the caller's stack
    while frame is not None:
        path = frame.f_code.co_filename
        if stacks.is_user_code(path, roots) and not stacks.is_ours(path):
            return _location(frame.f_code, frame.f_lineno)
        if other is None and stacks.is_shown(path):
            other = frame
        frame = frame.f_back
    return _location(other.f_code, other.f_lineno) if other is not None else None


@functools.lru_cache(maxsize=65536)
def _location(code: CodeType, line: int) -> Location:
    return Location(stacks.absolute(code.co_filename), line, function=stacks.qualified_name(code))


def _line_of_buffer(roots: tuple[str, ...], trace_of_buffer: Callable[[], str | None]) -> Location | None:
    trace = trace_of_buffer()
    stack = stacks.from_text(trace) if trace else ()
    inner = [place for place in stack if stacks.is_user_code(place.path, roots)] or list(stack)
    return inner[-1] if inner else None
