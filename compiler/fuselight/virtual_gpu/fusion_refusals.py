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
def telling_refusals(tell: Callable[[Mapping[tuple[Any, Any, str], int]], None]) -> Iterator[None]:
    """Inside, `tell` is given the pairs of scheduler nodes with torch's reason, and how often it was said.

    Nodes are compared by the thousand: they are counted at once and reported when the schedule ends.
    """
    scheduler = torch._inductor.scheduler
    pairs: dict[int, tuple[Any, Any]] = {}
    counts: dict[tuple[Any, Any, str], int] = {}

    def wrap_init(real: Callable[..., Any]) -> Callable[..., Any]:
        def init(self: Any, node1: Any, node2: Any) -> None:
            real(self, node1, node2)
            pairs[id(self)] = (node1, node2)

        return init

    def wrap_call(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(self: Any, reason: str, *args: Any) -> None:
            real(self, reason, *args)
            pair = pairs.get(id(self))
            if pair is not None:
                key = (pair[0], pair[1], reason)
                counts[key] = counts.get(key, 0) + 1

        return call

    def wrap_fuse(real: Callable[..., Any]) -> Callable[..., Any]:
        def fuse_nodes(self: Any, nodes: Any) -> Any:
            pairs.clear()
            counts.clear()
            fused = real(self, nodes)
            tell(dict(counts))
            pairs.clear()
            counts.clear()
            return fused

        return fuse_nodes

    with (
        wrapped(scheduler.WhyNoFuse, "__init__", wrap_init),
        wrapped(scheduler.WhyNoFuse, "__call__", wrap_call),
        wrapped(scheduler.Scheduler, "fuse_nodes", wrap_fuse),
    ):
        yield
