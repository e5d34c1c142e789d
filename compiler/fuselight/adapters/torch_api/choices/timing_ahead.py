"""Has Inductor time kernels while the host is ahead of the GPU, so that the time of a launch is not that of a kernel.

Inductor times a kernel between two events, at once after one that clears a cache in some 10 us. A launch takes the host
30 to 200 us, most where it first copies what the kernel changes. A GPU that waits for it between the events reads the
same for all kernels that take less than a launch. Inductor clears the cache a hundred times before it reads, which
puts some hosts ahead, and some not. Here the GPU first waits, while the host launches what is timed next. With that,
compiles with the same options agreed on an H100; without, they differed (docs/results/tuning.md).
Invariant: what is timed, how often, and what is chosen by it stay Inductor's.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

from fuselight.adapters.torch_api.patching import wrapped

_CYCLES_PER_US = 2000
"""Of a recent data-center GPU; another one waits a little longer."""
_US_PER_LAUNCH = 250
"""What the host takes for one reading, rarely more: most of it in Python."""
_LONGEST_US = 5000
"""The host is ahead for twenty readings at least: the fastest counts."""


@contextlib.contextmanager
def timing_ahead() -> Iterator[None]:
    """Within the block, what Inductor's own benchmarker times in this process begins with a wait of the GPU.

    Does nothing with a torch that has none, or for ROCm, whose clock some GPUs count in other units.
    """
    module: Any = importlib.import_module("torch._inductor.runtime.benchmarking")
    kind = getattr(module, "InductorBenchmarker", None)
    # It makes the events of a series of readings at once before it.
    if not hasattr(kind, "get_event_pairs") or not hasattr(torch.cuda, "_sleep") or torch.version.hip:
        yield
        return
    with wrapped(kind, "get_event_pairs", _wait_first):
        yield


def _wait_first(real: Callable[..., Any], *args: Any, **named: Any) -> Any:
    pairs = real(*args, **named)
    if torch.cuda.is_available():
        wait: Any = torch.cuda._sleep  # noqa: SLF001 - public in all but its name
        wait(min(_LONGEST_US, _US_PER_LAUNCH * len(pairs)) * _CYCLES_PER_US)
    return pairs
