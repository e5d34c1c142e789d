"""The memory of a job in the terminal and as JSON: the peak of each process by line, what grows, what is in pieces.

Invariant: the rows of a peak add up to it; what is not listed is summed in a last row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from fuselight.shared.codec import encode
from fuselight_server.base.finding import SourceLine
from fuselight_server.base.formatting import format_count, format_size
from fuselight_server.base.terminal import Terminal
from fuselight_server.cli.formats.text_parts import shown_line
from fuselight_server.jobs.memory.model import (
    DeviceMemory,
    HeldTensors,
    JobMemory,
    MemoryGrowth,
    ProcessMemory,
    TensorOrigin,
)
from fuselight_server.jobs.memory.words import (
    ORIGINS,
    device_in_words,
    failure_in_words,
    free_in_words,
    growth_in_words,
    moment_in_words,
    row_in_words,
    steps_in_words,
)

_MAX_PROCESSES = 8
_MAX_ROWS = 10
_MAX_GROWING = 5
_WIDTH = 9
"""Of a size, as `999.9 MB`."""


def print_memory(
    memory: JobMemory | None, terminal: Terminal, read_line: Callable[[str, int], str | None]
) -> None:
    """Print each process; nothing for a job without snapshots."""
    if memory is None or not memory.processes:
        return
    terminal.print("memory:")
    shown = _shown(memory)
    for process in shown:
        for line in _process_lines(process, read_line):
            terminal.print(line)
    if len(memory.processes) > len(shown):
        terminal.print(f"  and {format_count(len(memory.processes) - len(shown), 'more snapshot')}")
    for line in _difference_lines(memory, read_line):
        terminal.print(line)


def _shown(memory: JobMemory) -> list[ProcessMemory]:
    """The first processes, and those with the highest and the lowest peak."""
    by_peak = sorted(memory.processes, key=lambda process: -_peak(process))
    kept = [*by_peak[:1], *by_peak[-1:], *memory.processes][: _MAX_PROCESSES + 2]
    return [process for process in memory.processes if process in kept][:_MAX_PROCESSES]


def _peak(process: ProcessMemory) -> int:
    return max((device.peak.allocated for device in process.devices), default=0)


def _process_lines(process: ProcessMemory, read_line: Callable[[str, int], str | None]) -> Iterator[str]:
    for device in process.devices:
        name = f"{process.label}, {device_in_words(device, len(process.devices))}".rstrip(" ,:")
        yield (
            f"  {name}: peak {moment_in_words(device.peak)}; at the end {moment_in_words(device.end)} "
            f"({format_count(device.events, 'event')})"
        )
        yield "    at the peak:"
        yield from _rows(device.peak.held, read_line)
        yield from _growth_lines(device.growth, read_line)
        if device.free.bytes:
            yield f"    reserved and not used at the end: {free_in_words(device.free, device.end.reserved)}"
        yield from _failure_lines(device, read_line)


def _rows(held: tuple[HeldTensors, ...], read_line: Callable[[str, int], str | None]) -> Iterator[str]:
    for row in held[:_MAX_ROWS]:
        yield f"      {format_size(row.bytes):>{_WIDTH}}  {_described(row, read_line)}"
    rest = held[_MAX_ROWS:]
    if rest:
        size = format_size(sum(row.bytes for row in rest))
        yield f"      {size:>{_WIDTH}}  in {format_count(len(rest), 'more line')}"


def _described(row: HeldTensors, read_line: Callable[[str, int], str | None]) -> str:
    """`train.py:16  x + self.b(h)  (compiled)`."""
    if row.location is None:
        return ORIGINS[row.origin]
    text = (read_line(row.location.path, row.location.line) or "").strip()
    words = row_in_words(row)
    place = shown_line(SourceLine(row.location.path, row.location.line))
    return "  ".join(filter(None, (place, text, f"({words})" if words else "")))


def _growth_lines(growth: MemoryGrowth | None, read_line: Callable[[str, int], str | None]) -> Iterator[str]:
    if growth is None or not growth.lines:
        return
    yield f"    grows, over {steps_in_words(growth, growth.steps)} after the first:"
    for line in growth.lines[:_MAX_GROWING]:
        yield f"      {growth_in_words(growth, line)}:  {_described(line.held, read_line)}"
    if len(growth.lines) > _MAX_GROWING:
        yield f"      and {format_count(len(growth.lines) - _MAX_GROWING, 'more line')}"


def _failure_lines(device: DeviceMemory, read_line: Callable[[str, int], str | None]) -> Iterator[str]:
    for failure in device.failures[-1:]:
        where = (
            shown_line(SourceLine(failure.location.path, failure.location.line)) if failure.location else ""
        )
        yield (
            f"    ran out of memory{f' at {where}' if where else ''}: {failure_in_words(failure)}; "
            f"{moment_in_words(failure.moment)}"
        )
        if failure.moment.event != device.peak.event:
            yield "    alive then:"
            yield from _rows(failure.moment.held, read_line)


def _difference_lines(memory: JobMemory, read_line: Callable[[str, int], str | None]) -> Iterator[str]:
    if not memory.differences:
        return
    first = memory.differences[0]
    yield f"  rank {first.most_rank} has more at its peak than rank {first.least_rank}:"
    for item in memory.differences[:_MAX_GROWING]:
        size = f"+{format_size(item.most - item.least)}"
        if item.location is not None:
            text = (read_line(item.location.path, item.location.line) or "").strip()
            where = f"{shown_line(SourceLine(item.location.path, item.location.line))}  {text}".rstrip()
        else:
            where = ORIGINS[item.origin] if item.origin is not TensorOrigin.LINE else ""
        yield f"      {size:>{_WIDTH + 1}}  {where}"


def memory_data(memory: JobMemory | None) -> dict[str, Any] | None:
    """The JSON of a job's memory; None without snapshots."""
    if memory is None:
        return None
    data: dict[str, Any] = encode(memory)
    for process, item in zip(memory.processes, data["processes"], strict=True):
        item["label"] = process.label
    return data
