# ruff: noqa: SLF001 - private names are this package's business
"""Records which pairs of kernels Inductor's scheduler considered but did not fuse.

Invariant: no scheduler node is held after its schedule ends.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torch._inductor.scheduler

from fuselight.torch_api.patching import wrapped


@contextlib.contextmanager
def reporting_refusals(tell: Callable[[Mapping[tuple[Any, Any, str], int]], None]) -> Iterator[None]:
    """Inside, `tell` is given the pairs of scheduler nodes with torch's reason, and how often it was said.

    Nodes are compared by the thousand: they are counted at once and reported when the schedule ends.
    """
    scheduler = torch._inductor.scheduler
    pairs: dict[int, tuple[Any, Any]] = {}
    counts: dict[tuple[Any, Any, str], int] = {}

    def init(real: Callable[..., Any], self: Any, node1: Any, node2: Any) -> None:
        real(self, node1, node2)
        pairs[id(self)] = (node1, node2)

    def call(real: Callable[..., Any], self: Any, reason: str, *args: Any) -> None:
        real(self, reason, *args)
        pair = pairs.get(id(self))
        if pair is not None:
            key = (pair[0], pair[1], reason)
            counts[key] = counts.get(key, 0) + 1

    def fuse_nodes(real: Callable[..., Any], self: Any, nodes: Any) -> Any:
        pairs.clear()
        counts.clear()
        fused = real(self, nodes)
        tell(dict(counts))
        pairs.clear()
        counts.clear()
        return fused

    with (
        wrapped(scheduler.WhyNoFuse, "__init__", init),
        wrapped(scheduler.WhyNoFuse, "__call__", call),
        wrapped(scheduler.Scheduler, "fuse_nodes", fuse_nodes),
    ):
        yield
