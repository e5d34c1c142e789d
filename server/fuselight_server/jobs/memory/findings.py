"""Findings of allocator snapshots: FL951 memory that grows, FL952 memory that ran out, FL953 memory in pieces.

Invariant: a finding is what the allocator recorded. What keeps a tensor alive is not in a snapshot, and is not claimed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from fuselight.shared.report import Location, Tier
from fuselight_server.base.finding import Finding, Related, Severity, Span
from fuselight_server.base.formatting import format_count, format_list, format_size
from fuselight_server.base.rank_words import ranks_in_words
from fuselight_server.explain.findings.common.catalogue import link, severity
from fuselight_server.explain.findings.common.text import compose, place, sentence
from fuselight_server.jobs.memory.model import (
    DeviceMemory,
    GrowingLine,
    HeldTensors,
    JobMemory,
    OutOfMemory,
    ProcessMemory,
    TensorOrigin,
)
from fuselight_server.jobs.memory.words import (
    failure_in_words,
    free_in_words,
    growth_in_words,
    is_fragmented,
    moment_in_words,
)

_GROWS, _RAN_OUT, _PIECES = "FL951", "FL952", "FL953"
CODES = frozenset({_GROWS, _RAN_OUT, _PIECES})
_MAX_GROWING = 8
"""Lines of a process with a finding: where a graph is kept, every line of the forward grows."""
_MAX_HELD = 4
_LOOK_FOR = (
    "Look for a list, a dict or an attribute that has one more entry after each step, and for a sum of losses with "
    "their graphs, as `total += loss`"
)
_KEEP_LESS = "Keep a number with `.item()`, or the tensor without its graph with `.detach()`"
_REPLACED = "Each tensor takes the place of a smaller one, as in `cache = torch.cat([cache, new])`."
_BOUND = "If it has a largest size, allocate it once with this size, and write into it"
_EXPANDABLE = (
    "Set `PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True`: segments then grow in place of new ones"
)
_WORTH = 1 << 20
"""Bytes of growth that are a warning."""
_LEAST_GROWTH = 1 << 16
"""Bytes below which growth is listed and no finding: a list of losses has 512 for each step."""
_GIGABYTE = 1e9
_LEAST_PIECES = 64 << 20
_PIECES_PART = 0.2
"""Of what is reserved, from which pieces between tensors are a finding."""


@dataclass(frozen=True)
class _OfProcess:
    """A finding of one process."""

    finding: Finding
    weight: int
    """Bytes: of the same finding of several processes the heaviest is shown."""
    label: str
    rank: int | None


def memory_findings(memory: JobMemory, *, inputs: str, torch: str) -> list[Finding]:
    """Each finding once; it names the ranks that have it. `memory` has local lines."""
    kept: dict[tuple[Span, str], list[_OfProcess]] = {}
    for process in memory.processes:
        for known in _findings_of(process, inputs, torch):
            kept.setdefault((known.finding.span, known.finding.code), []).append(known)
    return [_merged(same, len(memory.processes)) for same in kept.values()]


def _merged(same: Sequence[_OfProcess], processes: int) -> Finding:
    heaviest = max(same, key=lambda known: known.weight)
    if processes == 1:
        return heaviest.finding
    ranks = [known.rank for known in same if known.rank is not None]
    labels = list(dict.fromkeys(known.label for known in same))
    whose = ranks_in_words(ranks) if len(ranks) == len(same) else format_list(labels[:_MAX_HELD])
    text = f"In {whose} of {format_count(processes, 'snapshot')}"
    text += f"; the numbers are of {heaviest.label}." if len(labels) > 1 else "."
    return replace(heaviest.finding, message=f"{heaviest.finding.message}\n{text}")


def _findings_of(process: ProcessMemory, inputs: str, torch: str) -> Iterator[_OfProcess]:
    for device in process.devices:
        for finding, weight in (*_growing(device), *_failures(device), *_pieces(device)):
            named = replace(finding, inputs=inputs, torch=torch)
            yield _OfProcess(named, weight, process.label, process.rank)


def _growing(device: DeviceMemory) -> Iterator[tuple[Finding, int]]:
    growth = device.growth
    if growth is None:
        return
    lines = [
        line
        for line in growth.lines
        if line.held.origin is TensorOrigin.LINE and line.held.bytes >= _LEAST_GROWTH
    ]
    for line in lines[:_MAX_GROWING]:
        where = line.held.location
        if where is None:
            continue
        is_large = line.held.bytes >= _WORTH and not line.is_replaced
        message = compose(
            _REPLACED
            if line.is_replaced
            else f"At the end of the recording, {format_count(line.held.tensors, 'tensor')} of these steps are alive, "
            f"{format_size(line.held.bytes)} together. A snapshot does not show what keeps them.",
            _others(lines, line),
            cost=[_after(line, growth.steps)] if is_large else [],
            hints=[_BOUND] if line.is_replaced else [_LOOK_FOR, _KEEP_LESS],
        )
        title = f"memory grows here: {growth_in_words(growth, line)}"
        finding = _finding(_GROWS, where, title, message)
        level = severity(_GROWS) if is_large else Severity.INFORMATION
        yield replace(finding, related=_related(line.callers), severity=level), line.held.bytes


def _others(lines: Sequence[GrowingLine], line: GrowingLine) -> str:
    others = len(lines) - 1
    if not others:
        return ""
    largest = lines[0] if lines[0] is not line else lines[1]
    where = largest.held.location
    if where is None:
        return ""
    return f"{format_count(others, 'more line')} of the job grow, {place(where)} by {format_size(largest.held.bytes)}."


def _after(line: GrowingLine, steps: int) -> str:
    """What the growth comes to: `1 GB more every 3,815 steps`; `steps` are all that were compared."""
    each = line.held.bytes / steps
    return (
        f"1 GB more every {_GIGABYTE / each:,.0f} steps"
        if each < _GIGABYTE
        else f"{format_size(each)} more every step"
    )


def _failures(device: DeviceMemory) -> Iterator[tuple[Finding, int]]:
    for failure in device.failures[-1:]:
        where = failure.location
        if where is None:
            continue
        count = (
            f" ({device.failure_count:,} times, the last one is shown)" if device.failure_count > 1 else ""
        )
        message = compose(
            f"The process had {moment_in_words(failure.moment)}.",
            _most_held(failure.moment.held),
            _in_pieces(failure),
            _own_limit(failure),
            cost=["the allocation failed"],
            hints=_failure_hints(device, failure),
        )
        finding = _finding(
            _RAN_OUT, where, f"memory ran out here: {failure_in_words(failure)}{count}", message
        )
        yield replace(finding, related=_related(failure.callers)), failure.moment.allocated


def _most_held(held: Sequence[HeldTensors]) -> str:
    lines = [
        f"{format_size(row.bytes)} of {place(row.location)}"
        for row in held
        if row.location is not None and row.origin is TensorOrigin.LINE
    ]
    return f"Most of it: {format_list(lines[:_MAX_HELD])}." if lines else ""


def _in_pieces(failure: OutOfMemory) -> str:
    unused = failure.moment.reserved - failure.moment.allocated
    if not is_fragmented(failure):
        return ""
    return (
        f"{format_size(unused)} were reserved and not used, more than was asked for: in pieces between tensors, of "
        "which none was large enough."
    )


def _own_limit(failure: OutOfMemory) -> str:
    if failure.device_free < failure.requested:
        return ""
    return (
        "The device had more left than was asked for: the process may have a limit of its own, as of "
        "`set_per_process_memory_fraction`."
    )


def _failure_hints(device: DeviceMemory, failure: OutOfMemory) -> Iterator[str]:
    if is_fragmented(failure) and not device.has_expandable_segments:
        yield _EXPANDABLE
    yield "`fuselight memory` estimates the step on a device, by line, and searches the largest batch that fits"


def _pieces(device: DeviceMemory) -> Iterator[tuple[Finding, int]]:
    free, reserved = device.free, device.end.reserved
    if free.between_tensors < max(_LEAST_PIECES, _PIECES_PART * reserved):
        return
    row = next((row for row in free.pinned_by if row.origin is TensorOrigin.LINE), None)
    if row is None or row.location is None:
        return
    share = f"{format_size(row.bytes)} of {format_size(free.bytes)} that are reserved and not used"
    hints = [] if device.has_expandable_segments else [_EXPANDABLE]
    yield (
        _finding(
            _PIECES,
            row.location,
            f"memory in pieces: tensors of this line keep segments with {share}",
            compose(
                f"At the end of the recording the process had {moment_in_words(device.end)}: "
                f"{free_in_words(free, reserved)}.",
                "A piece is of use only for a tensor that fits into it, and its segment cannot be given back while a "
                "tensor is in it.",
                cost=[f"{format_size(free.between_tensors)} between tensors"],
                hints=[*hints, "Make tensors that stay before those that come and go"],
            ),
        ),
        row.bytes,
    )


def _finding(code: str, where: Location, title: str, message: str) -> Finding:
    return Finding(
        code=code,
        severity=severity(code),
        title=title,
        message=f"{sentence(title)}\n{message}",
        span=Span(where.path, where.line),
        tier=Tier.CAPTURE,
        target=where.function or "",
        inputs="",
        torch="",
        link=link(code),
        subject=f"memory:{code}",
    )


def _related(callers: Iterable[Location]) -> tuple[Related, ...]:
    return tuple(
        Related(
            Span(caller.path, caller.line), f"called in `{caller.function}`" if caller.function else "called"
        )
        for caller in list(callers)[:-1]
    )
