"""What is in force around calls in a process that also makes compiled ones: no torch.compile; float64 throughout."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode


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


class DoubleConversions(TorchFunctionMode):
    """Converts to float64 where the code asks for float32, as a softmax of half precision does."""

    def __torch_function__(
        self, func: Callable[..., Any], _types: Any, args: Sequence[Any] = (), kwargs: Any = None
    ) -> Any:
        """Call the function with float64 in place of float32."""
        named = {name: _double(value) for name, value in (kwargs or {}).items()}
        function = torch.Tensor.double if func is torch.Tensor.float else func
        return function(*map(_double, args), **named)


def _double(value: Any) -> Any:
    return torch.float64 if value is torch.float32 else value
