# ruff: noqa: SLF001 - private names are this package's business
"""What the allocator of a present device does in a block: of a CPU by the profiler, of a GPU by its own history.

Invariant: an event is what the allocator did, in its order. A snapshot of another release, without the names that are
read here, gives an error and no numbers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch.profiler import ProfilerActivity, profile

from fuselight.adapters.torch_api.patching import patched

_MAX_EVENTS = 1_000_000
_ROUNDING = 512
"""Bytes of which a block of a GPU's allocator is a multiple: an event has what was asked for."""
_RESERVED = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}


class AllocatorHistoryError(RuntimeError):
    """The events cannot be read: the message says why."""


class AllocatorAction(NamedTuple):
    """A tensor's memory is given or taken back, or the allocator gets or returns memory of the driver."""

    address: int
    bytes: int
    """Less than 0 for an end."""
    frames: tuple[tuple[str, int], ...] = ()
    """Path and line of each frame, innermost first, where they were recorded."""
    is_reserve: bool = False
    """Whether it is memory of the driver, and not of a tensor."""


@dataclass
class AllocatorHistory:
    """Filled when the block ends."""

    events: list[AllocatorAction] = field(default_factory=list)
    allocated: int | None = None
    """Bytes of tensors when the block began; None where only the program knows, as on a CPU."""
    peak: int | None = None
    """The most bytes of tensors, as the allocator counts; None where only the events say it, as on a CPU."""
    reserved: int | None = None
    """Bytes that the allocator had of the driver when the block began; None on a CPU, whose allocator keeps none."""
    between_tensors: int | None = None
    """Bytes at the end that are in segments with tensors, and are not allocated."""


@contextlib.contextmanager
def recorded_history(device: torch.device) -> Iterator[AllocatorHistory]:
    """Record what the allocator of `device` does. Raises AllocatorHistoryError at the end if that cannot be read."""
    history = AllocatorHistory()
    if device.type == "cuda":
        with _on_gpu(history, device):
            yield history
        return
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as profiled:
        yield history
    history.events += _profiled_events(profiled)


def _profiled_events(profiled: Any) -> list[AllocatorAction]:
    try:
        allocation = torch._C._profiler._EventType.Allocation
        waiting = list(profiled.profiler.kineto_results.experimental_event_tree())
        timed: list[tuple[int, AllocatorAction]] = []
        while waiting:
            event = waiting.pop()
            waiting.extend(event.children)
            if event.tag == allocation and event.extra_fields.device.type == "cpu":
                fields = event.extra_fields
                timed.append(
                    (int(event.start_time_ns), AllocatorAction(int(fields.ptr), int(fields.alloc_size)))
                )
    except (AttributeError, TypeError) as error:
        raise AllocatorHistoryError(
            f"this torch's profiler does not name its allocations: {error}"
        ) from error
    return [event for _, event in sorted(timed, key=lambda pair: pair[0])]


@contextlib.contextmanager
def _on_gpu(history: AllocatorHistory, device: torch.device) -> Iterator[None]:
    cuda: Any = torch.cuda
    index = device.index if device.index is not None else cuda.current_device()
    cuda.synchronize(index)
    history.allocated, history.reserved = cuda.memory_allocated(index), cuda.memory_reserved(index)
    cuda.memory._record_memory_history(
        enabled="all", context="alloc", stacks="python", max_entries=_MAX_EVENTS, clear_history=True
    )
    cuda.reset_peak_memory_stats(index)
    try:
        yield
        cuda.synchronize(index)
        history.peak = cuda.max_memory_allocated(index)
        read_snapshot(cuda.memory._snapshot(index), index, history)
    finally:
        cuda.memory._record_memory_history(enabled=None)


def read_snapshot(snapshot: Any, device: int, history: AllocatorHistory) -> None:
    """Read the events of one device, and the pieces at their end. Raises AllocatorHistoryError."""
    try:
        traces = snapshot["device_traces"]
        events = [_event(entry) for entry in (traces[device] if device < len(traces) else ())]
        history.events += [event for event in events if event is not None]
        history.between_tensors = between_tensors(snapshot["segments"], device)
    except (AttributeError, TypeError, KeyError, ValueError) as error:
        raise AllocatorHistoryError(
            f"the allocator's history is of another form than this torch's: {error!r}"
        ) from error


def between_tensors(segments: Iterable[Mapping[str, Any]], device: int) -> int:
    """Bytes in segments with tensors that no tensor has. Raises KeyError for segments of another release."""
    return sum(
        int(segment["total_size"]) - int(segment["allocated_size"])
        for segment in segments
        if segment["device"] == device and segment["allocated_size"]
    )


def _event(entry: Mapping[str, Any]) -> AllocatorAction | None:
    action, address, size = str(entry["action"]), int(entry["addr"]), int(entry["size"])
    if action in {"alloc", "free_completed"}:
        size = -(-size // _ROUNDING) * _ROUNDING
    if action == "alloc":
        frames = tuple((str(frame["filename"]), int(frame["line"])) for frame in entry.get("frames") or ())
        return AllocatorAction(address, size, frames)
    if action == "free_completed":
        return AllocatorAction(address, -size)
    if action in _RESERVED:
        return AllocatorAction(address, _RESERVED[action] * size, is_reserve=True)
    return None


@contextlib.contextmanager
def generated_buffers(note: Callable[[torch.Tensor], None]) -> Iterator[None]:
    """Inside, `note` gets each buffer that code which Inductor generates and loads inside makes: no mode sees these."""
    owner: Any = getattr(torch._C._dynamo, "guards", None)
    with contextlib.ExitStack() as stack:
        for name in ("_empty_strided_cpu", "_empty_strided_cuda"):
            real = getattr(owner, name, None)
            if real is not None:
                stack.enter_context(patched(owner, name, _noting(real, note)))
        yield


def _noting(
    real: Callable[..., torch.Tensor], note: Callable[[torch.Tensor], None]
) -> Callable[..., torch.Tensor]:
    def noting(*args: Any) -> torch.Tensor:
        tensor = real(*args)
        note(tensor)
        return tensor

    return noting


def generated_frames(path: str, line: int) -> tuple[tuple[str, int, str], ...]:
    """Path, line and function of the program's frames, innermost first, for which a line of generated code stands.

    Empty for code that Inductor has not generated, or without the map of its lines.
    """
    from torch._inductor.codecache import PyCodeCache  # noqa: PLC0415 - Inductor takes a second

    frames = PyCodeCache.stack_frames_for_code(path, line)
    return tuple((frame["filename"], frame["line"], frame["name"]) for frame in frames or ())


def is_generated(path: str) -> bool:
    """Whether Inductor has generated and loaded the file."""
    from torch._inductor.codecache import PyCodeCache  # noqa: PLC0415 - the same

    return path in PyCodeCache.linemaps
