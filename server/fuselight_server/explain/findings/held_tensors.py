"""Which names held tensors when a run had no memory left, in words of FL406.

Invariant: a line is named only where it alone fills or binds the name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath

from fuselight.shared.report import Failure, TensorHolder
from fuselight_server.base.finding import Related
from fuselight_server.base.formatting import format_count, format_size
from fuselight_server.explain.findings.common.context import span_of

_REQUEST = re.compile(r"DefaultCPUAllocator: .*tried to allocate (\d+) bytes")
_SHOWN = 3


def requested_size(message: str) -> str:
    """`out of memory: 281 TB were requested`, from what torch's allocator of the CPU says; empty for other texts."""
    match = _REQUEST.search(message)
    return f"out of memory: {format_size(int(match[1]))} were requested" if match else ""


def held_in_words(failure: Failure) -> str:
    """`Tensors were then held by `kept` (1.41 GB: list of 42 tensors, train.py:14) and ...`; empty if none is known."""
    names = [_holder(holder) for holder in failure.holders[:_SHOWN]]
    return f"Tensors were then held by {', '.join(names)}." if names else ""


def holding_lines(failure: Failure) -> Iterator[Related]:
    """The lines that fill or bind the names."""
    for holder in failure.holders:
        if holder.location is not None:
            what = f"`{holder.name}` held {format_size(holder.bytes)}"
            yield Related(span_of(holder.location), what)


def _holder(holder: TensorHolder) -> str:
    line = holder.location
    place = f", {PurePath(line.path).name}:{line.line}" if line is not None else ""
    graph = f", {format_size(holder.graph)} of it for their backward" if holder.graph else ""
    scope = f" in `{holder.scope}`" if holder.scope else ""
    return f"`{holder.name}`{scope} ({format_size(holder.bytes)}: {_kind(holder)}{graph}{place})"


def _kind(holder: TensorHolder) -> str:
    count = format_count(holder.tensors, "tensor")
    if holder.kind == "variable":
        return count
    if holder.kind == "optimizer":
        return "state of the optimizer"
    return holder.kind if holder.kind in {"parameters", "gradients"} else f"{holder.kind} of {count}"
