"""The memory of a process in words."""

from __future__ import annotations

from collections.abc import Iterator

from fuselight_server.base.formatting import (
    format_count,
    format_list,
    format_percent,
    format_place,
    format_size,
)
from fuselight_server.jobs.memory.model import (
    DeviceMemory,
    FreeMemory,
    GrowingLine,
    HeldTensors,
    JobMemory,
    MemoryGrowth,
    MemoryMoment,
    OutOfMemory,
    StepMark,
    TensorOrigin,
)

ORIGINS = {
    TensorOrigin.LINE: "",
    TensorOrigin.LIBRARY: "only a library's lines are known",
    TensorOrigin.NO_STACK: "no Python stack: the backward, or a library in C++",
    TensorOrigin.BEFORE: "made before the recording began",
}
_STEPS = {StepMark.OPTIMIZER: "step", StepMark.BACKWARD: "backward", StepMark.PART: "tenth of the recording"}
_MAX_STATEMENTS = 8
_MAX_LINES = 3
_PLURALS = {StepMark.BACKWARD: "backwards", StepMark.PART: "tenths of the recording"}


def moment_in_words(moment: MemoryMoment) -> str:
    """`31.2 GB of tensors, 34.0 GB reserved`."""
    return f"{format_size(moment.allocated)} of tensors, {format_size(moment.reserved)} reserved"


def free_in_words(free: FreeMemory, reserved: int) -> str:
    """`2.6 GB (8%) in pieces between tensors, the largest 20 MB; 1.2 GB in segments without tensors`."""
    share = f" ({format_percent(free.between_tensors, reserved)})" if reserved else ""
    return (
        f"{format_size(free.between_tensors)}{share} in pieces between tensors, "
        f"{format_size(free.whole_segments)} in segments without tensors; "
        f"the largest piece has {format_size(free.largest)}"
    )


def steps_in_words(growth: MemoryGrowth, count: int) -> str:
    """`7 steps`."""
    return format_count(count, _STEPS[growth.mark], _PLURALS.get(growth.mark, ""))


def growth_in_words(growth: MemoryGrowth, line: GrowingLine) -> str:
    """`262 kB more in each of 7 steps, which is never freed`."""
    each, freed = line.held.bytes // line.steps, ", which is never freed"
    if line.is_replaced:
        return f"{format_size(line.held.bytes)} more over {steps_in_words(growth, line.steps)}, in larger tensors"
    if growth.mark is StepMark.PART:
        return f"{format_size(line.held.bytes)} more over {line.steps} tenths of the recording{freed}"
    if line.steps < growth.steps - 1:
        return f"{format_size(each)} more in {line.steps} of {steps_in_words(growth, growth.steps)}{freed}"
    return f"{format_size(each)} more in each of {steps_in_words(growth, line.steps)}{freed}"


def failure_in_words(failure: OutOfMemory) -> str:
    """`512 MB were asked for, and the device had 36 MB left`."""
    left = format_size(failure.device_free)
    return f"{format_size(failure.requested)} were asked for, and the device had {left} left"


def is_fragmented(failure: OutOfMemory) -> bool:
    """Whether the allocator had as much as was asked for, in pieces between tensors."""
    return failure.moment.reserved - failure.moment.allocated >= failure.requested


def memory_statements(memory: JobMemory | None) -> Iterator[str]:
    """A sentence for each snapshot, the highest peaks first; none without snapshots."""
    processes = memory.processes if memory is not None else ()
    devices = [(process, device) for process in processes for device in process.devices]
    devices.sort(key=lambda item: -item[1].peak.allocated)
    for process, device in devices[:_MAX_STATEMENTS]:
        lines = [
            f"{format_size(row.bytes)} of {format_place(row.location.path, row.location.line)}"
            for row in device.peak.held
            if row.location is not None
        ]
        most = f"; most of it {format_list(lines[:_MAX_LINES])}" if lines else ""
        name = device_in_words(device, len(process.devices))
        yield f"Memory of {process.label}: {name}peak {moment_in_words(device.peak)}{most}"
    if len(devices) > _MAX_STATEMENTS:
        yield f"And {format_count(len(devices) - _MAX_STATEMENTS, 'more snapshot')}"


def row_in_words(row: HeldTensors) -> str:
    """What is known of a row beside its line."""
    return ORIGINS[row.origin] or ("compiled" if row.is_compiled else "")


def device_in_words(device: DeviceMemory, number_of_devices: int) -> str:
    """`GPU 1: `; empty for the only one."""
    return f"GPU {device.device}: " if number_of_devices > 1 else ""
