# ruff: noqa: SLF001 - private names are this package's business
"""Runs of autograd's engine, which torch starts with its function modes off."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import torch
from torch.autograd import Variable

from fuselight.adapters.torch_api.patching import wrapped


def around_backward(
    around: Callable[[], contextlib.AbstractContextManager[None]],
) -> contextlib.AbstractContextManager[None]:
    """Within the block, each run of the engine is inside of `around()`."""

    def run(real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with around():
            return real(*args, **kwargs)

    if not hasattr(torch.autograd, "_engine_run_backward"):  # before 2.2
        return contextlib.nullcontext()
    return wrapped(torch.autograd, "_engine_run_backward", run)


def call_at_the_end(function: Callable[[], None]) -> None:
    """Inside a backward, have a function be called when the backward ends."""
    Variable._execution_engine.queue_callback(function)


def keeps_forward_lines() -> contextlib.AbstractContextManager[Any]:
    """Inside, autograd notes for each of its nodes where the forward made it; nothing is checked."""
    autograd: Any = torch.autograd
    noting: contextlib.AbstractContextManager[Any] = autograd.detect_anomaly(check_nan=False)
    return noting


def forward_traceback() -> str | None:
    """Inside a backward, the traceback of the forward that made the node which runs; None outside of one."""
    current = getattr(torch._C, "_current_autograd_node", None)
    node = current() if current is not None else None
    if node is None:
        return None
    return "".join(node.metadata.get("traceback_", ()))
