"""What is allocated during a step, and the moment with most of it, by line.

Invariant: the parts of a peak add up to it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from types import CodeType
from typing import Any, TypeVar

import torch

from fuselight.adapters.torch_api import operator_workspaces
from fuselight.adapters.torch_api.cpu_workspaces import inside_operator_of_cpu
from fuselight.adapters.torch_api.fake_storages import keep_real_sizes
from fuselight.adapters.torch_api.storages import Moment, Storage, StorageTracker
from fuselight.adapters.virtual_gpu.replayed import BufferOrigin
from fuselight.capture.calls.calls import module_of
from fuselight.capture.calls.tensors import tensors_in
from fuselight.capture.dynamo import stacks
from fuselight.shared.report import (
    Device,
    HeldMemory,
    Location,
    MemoryPeak,
    MemoryUse,
    ModuleMemory,
    StepPhase,
)
from fuselight.worker.memory.held_tensors import label_held, program_names
from fuselight.worker.memory.modules import ModuleStack, owners
from fuselight.worker.memory.origins import StorageOrigin
from fuselight.worker.memory.steps import Step, StepObserver, buffers_of, parameters_of
from fuselight.worker.memory.timelines import timeline_of


@dataclass
class StepRecord(StepObserver):
    """Follows the storages of one step."""

    tracker: StorageTracker[StorageOrigin]
    step: Step
    modules: ModuleStack
    roots: tuple[str, ...] = ()
    saved: list[Storage[StorageOrigin]] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        step: Step,
        device: Device,
        roots: Sequence[str],
        origin_of_buffer: Callable[[], BufferOrigin | None],
        *,
        addresses: bool = False,
    ) -> StepRecord:
        """`origin_of_buffer`: of the buffer that generated code makes now (virtual_gpu.replayed).

        `addresses`: as in StorageTracker.
        """
        modules = ModuleStack()
        tracker = tracker_for(device, tuple(roots), modules, origin_of_buffer, addresses=addresses)
        prepared = step.prepared
        names = owners(module_of(prepared.function))
        owned: dict[MemoryUse, Sequence[tuple[torch.Tensor, torch.Tensor]]] = {
            MemoryUse.PARAMETER: [(tensor, tensor) for tensor in parameters_of(prepared)],
            MemoryUse.BUFFER: [(tensor, tensor) for tensor in buffers_of(prepared)],
            MemoryUse.OPTIMIZER: step.state_tensors(),
        }
        for use, tensors in owned.items():
            for tensor, owner in tensors:
                tracker.note([tensor], use, StorageOrigin(None, names.get(id(owner), "")))
        tracker.note(tensors_in([prepared.args, prepared.kwargs]), MemoryUse.INPUT)
        return cls(tracker, step, modules, tuple(roots))

    def began(self, phase: StepPhase) -> None:
        """As in StepObserver."""
        self.tracker.phase = phase.value
        if phase is StepPhase.OPTIMIZER:
            self.tracker.forget_lines()  # a step of the optimizer is on none

    def forward_ended(self, outputs: list[torch.Tensor]) -> None:
        """As in StepObserver."""
        for storage in self.tracker.storages_of(outputs):
            storage.use = storage.use or MemoryUse.OUTPUT
        label_held(self.tracker, program_names(self.step.prepared.function, self.roots), outputs)
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
        return peak_of(self.tracker, self.saved, device, training=self.step.training)

    def peaks_of_parts(self, device: Device) -> list[MemoryPeak]:
        """The same of each half of the forward, of the backward and of the optimizer's step."""
        phases = [[moment for moment in self.tracker.moments if moment.phase == phase] for phase in StepPhase]
        halves = [half for of in phases for half in (of[: len(of) // 2], of[len(of) // 2 :]) if half]
        peak = functools.partial(peak_of, self.tracker, self.saved, device, training=self.step.training)
        return [peak(moment=max(half, key=lambda moment: moment.bytes)) for half in halves]

    def lines(self) -> set[tuple[str, int]]:
        """Path and number of each line that has made a tensor in the step."""
        origins = {storage.place for storage in self.tracker.every if storage.place is not None}
        return {(origin.line.path, origin.line.line) for origin in origins if origin.line is not None}


def tracker_for(
    device: Device,
    roots: tuple[str, ...],
    modules: ModuleStack,
    origin_of_buffer: Callable[[], BufferOrigin | None],
    *,
    addresses: bool = False,
    on_operator: Callable[[], None] = lambda: None,
) -> StorageTracker[StorageOrigin]:
    """What follows storages as the allocator of `device` counts them."""
    has_gpu = device.backend != "cpu"

    def origin() -> StorageOrigin | None:
        on_operator()
        return _origin(roots, modules)

    return StorageTracker(
        origin,
        functools.partial(_origin_of_buffer, roots, origin_of_buffer),
        rounding=operator_workspaces.ROUNDING if has_gpu else 1,
        inside=functools.partial(operator_workspaces.inside_operator, device)
        if has_gpu
        else inside_operator_of_cpu,
        keep=keep_real_sizes,
        addresses=addresses,
    )


def peak_of(
    tracker: StorageTracker[StorageOrigin],
    saved: Iterable[Storage[StorageOrigin]],
    device: Device,
    *,
    training: bool,
    moment: Moment | None = None,
) -> MemoryPeak:
    """The moment with most bytes that was followed, or `moment`, with what libraries keep."""
    moment = moment if moment is not None else tracker.peak
    alive = tracker.alive_at(moment.number)
    library = operator_workspaces.library_workspace(device, tracker.operators, training=training)
    further = (MemoryUse.INSIDE, moment.inside, moment.place), (MemoryUse.LIBRARY, library, None)
    parts = [*map(_part, alive), *further]
    modules = [ModuleMemory(place.module if place else "", use, size, 1) for use, size, place in parts]
    return MemoryPeak(
        moment.bytes + library,
        sum(storage.bytes for storage in alive if storage.is_before),
        StepPhase(moment.phase or StepPhase.FORWARD),
        str(moment.operator),
        _line(moment.place),
        _by_line(parts),
        _by_line(map(_part, saved)),
        summed((modules, 1)),
        timeline_of(tracker.moments, tracker.every),
    )


_Part = tuple[MemoryUse, int, "StorageOrigin | None"]
"""Of what is allocated: its use, its bytes and where it comes from."""
Row = TypeVar("Row", HeldMemory, ModuleMemory)


def _part(storage: Storage[StorageOrigin]) -> _Part:
    return MemoryUse(storage.use or MemoryUse.TEMPORARY), storage.bytes, storage.place


def _by_line(parts: Iterable[_Part]) -> tuple[HeldMemory, ...]:
    lines: dict[tuple[str, int], Location] = {}  # of several functions on a line, the first
    rows = []
    for use, size, place in parts:
        line = _line(place)
        line = lines.setdefault((line.path, line.line), line) if line is not None else None
        rows.append(HeldMemory(use, size, 1, line, place.holder if place is not None else ""))
    return summed((rows, 1))


def summed(
    *weighted: tuple[Sequence[Row], int], parts: int = 1, key: Callable[[Row], Row] = lambda row: row
) -> tuple[Row, ...]:
    """A part of all rows, each so many times; most bytes first. `key`: what is the same for rows of a sum."""
    sizes: dict[Row, tuple[int, int]] = {}
    for rows, weight in weighted:
        for row in rows:
            name = key(replace(row, bytes=0, tensors=0))
            size, count = sizes.get(name, (0, 0))
            sizes[name] = size + weight * row.bytes, count + weight * row.tensors
    known = [
        replace(row, bytes=size // parts, tensors=count // parts)
        for row, (size, count) in sizes.items()
        if size
    ]
    return tuple(sorted(known, key=lambda row: -row.bytes))


def _line(origin: StorageOrigin | None) -> Location | None:
    return origin.line if origin is not None else None


def _origin(roots: tuple[str, ...], modules: ModuleStack) -> StorageOrigin | None:
    line = user_line(roots)
    return StorageOrigin(line, modules.current) if line is not None else None


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


def calling_expression(roots: tuple[str, ...]) -> Location | None:
    """The user's expression that calls the module whose hook runs; None where other code calls it, as a container."""
    frame: Any = sys._getframe(2)  # noqa: SLF001 - as above; the caller is the hook
    while frame is not None and frame.f_code.co_filename == torch.nn.modules.module.__file__:
        frame = frame.f_back
    if frame is None or not stacks.is_user_code(frame.f_code.co_filename, roots):
        return None
    place = _location(frame.f_code, frame.f_lineno)
    if not hasattr(frame.f_code, "co_positions"):  # Python 3.10
        return place
    line, end_line, column, end_column = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    return replace(place, line=line or place.line, column=column, end_line=end_line, end_column=end_column)


@functools.lru_cache(maxsize=65536)
def _location(code: CodeType, line: int) -> Location:
    return Location(stacks.absolute(code.co_filename), line, function=stacks.qualified_name(code))


def _origin_of_buffer(
    roots: tuple[str, ...], origin_of_buffer: Callable[[], BufferOrigin | None]
) -> StorageOrigin | None:
    buffer = origin_of_buffer()
    line = line_of_trace(roots, buffer.trace) if buffer is not None else None
    return StorageOrigin(line, buffer.module) if buffer is not None and line is not None else None


def line_of_trace(roots: tuple[str, ...], trace: str) -> Location | None:
    """The innermost line of the user's in the traceback of a node of a graph, else of a third party's."""
    stack = stacks.from_text(trace)
    inner = [place for place in stack if stacks.is_user_code(place.path, roots)] or list(stack)
    return inner[-1] if inner else None
