"""Calls without torch.compile, in a process that also makes compiled ones."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch


@contextlib.contextmanager
def eager_mode() -> Iterator[None]:
    """Compile nothing. `torch.cond` compiles even in eager mode, and without that loses gradients of closures."""
    cond = torch.cond
    torch.cond = _python_cond
    try:
        with torch.compiler.set_stance("force_eager"):
            yield
    finally:
        torch.cond = cond


def _python_cond(
    pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any] = ()
) -> Any:
    return true_fn(*operands) if pred else false_fn(*operands)
