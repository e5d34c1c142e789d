"""What a call computes, kept so that another run can be compared with it: checksums, and statistics by line.

Invariant: no element of a tensor is kept, and of a call a bounded number of lines.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from fuselight.adapters.torch_api.dynamo import targets
from fuselight.capture.calls.calls import module_of
from fuselight.measure.accuracy.results import Value
from fuselight.shared.report import CallValues, LineSums, RecordedValue
from fuselight.shared.shadow_files import relative_to
from fuselight.worker.results.eager_calls import RepeatedCall
from fuselight.worker.results.noted_lines import EagerLines, LineValues, NotedOperator

MAX_CALLS = 16
"""Calls of a process that are recorded."""
_MAX_LINES = 2000


def recorded_call(
    name: str, step: int, recorded: RepeatedCall, compiled: Callable[..., Any], roots: Sequence[str]
) -> CallValues:
    """Make the call compiled, and in eager mode line by line, and keep what identifies the values."""
    of_compiled = recorded.repeated(compiled, compiled=True)
    function = recorded.prepared.function
    module = module_of(function)
    lines = LineValues(targets.code_of(function if module is None else module))
    recorded.eager(EagerLines(lines), begin=lines.clear)
    return CallValues(
        name,
        step,
        tuple(map(value_record, of_compiled.results.values)),
        tuple(_line_sums(lines.operators[:_MAX_LINES], roots)),
    )


def _line_sums(operators: Sequence[NotedOperator], roots: Sequence[str]) -> Iterator[LineSums]:
    times: Counter[tuple[str, int]] = Counter()
    for operator in operators:
        frame = operator.stack[-1]
        path = relative_to(frame.path, roots)
        times[path, frame.line] += 1
        yield LineSums(path, frame.line, times[path, frame.line], operator.sums)


def value_record(value: Value) -> RecordedValue:
    """The checksum and the statistics of a result."""
    tensor = value.tensor.detach().cpu().contiguous()
    wide = (torch.view_as_real(tensor) if tensor.is_complex() else tensor).double().reshape(-1)
    finite = wide[wide.isfinite()]
    mean, size, smallest, largest = (
        map(float, (finite.mean(), finite.square().mean().sqrt(), finite.min(), finite.max()))
        if finite.numel()
        else (math.nan,) * 4
    )
    raw = tensor.reshape(-1).view(torch.uint8).numpy().tobytes() if tensor.numel() else b""
    return RecordedValue(
        value.name,
        value.dtype,
        tuple(value.shape),
        hashlib.sha256(raw).hexdigest()[:16],
        mean,
        size,
        smallest,
        largest,
        wide.numel() - finite.numel(),
    )
