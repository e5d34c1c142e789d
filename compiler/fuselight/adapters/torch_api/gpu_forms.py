"""Functions of torch that run other operators on a GPU than on a CPU, and keep other tensors for the backward.

Invariant: outside of the context nothing is changed.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.nn import functional

from fuselight.adapters.torch_api.patching import patched, wrapped

_FUSED_NORM = (2, 9)
"""The torch from which on `rms_norm` is one operator on CUDA."""


class _RootMeanSquare(torch.autograd.Function):
    """The memory of `_fused_rms_norm`, whose kernel exists on a GPU alone: values are not computed."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor | None, dimensions: int) -> torch.Tensor:
        """The result, and the inverse of each row's root mean square, which is kept."""
        rows = (*x.shape[: x.dim() - dimensions], *(1 for _ in range(dimensions)))
        dtype = torch.promote_types(x.dtype, torch.float32)
        result, inverse = torch.empty_like(x), x.new_empty(rows, dtype=dtype)
        ctx.save_for_backward(x, weight, inverse)
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[torch.Tensor, torch.Tensor | None, None]:
        """The gradients of input and weight."""
        x, weight, _ = ctx.saved_tensors
        del gradients
        return torch.empty_like(x), torch.empty_like(weight) if weight is not None else None, None


class _LogSigmoid(torch.autograd.Function):
    """The memory of `log_sigmoid_forward` on a GPU, which keeps its input alone: values are not computed."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        """The result."""
        ctx.save_for_backward(x)
        return torch.empty_like(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> torch.Tensor:
        """The gradient of the input."""
        del gradients
        return torch.empty_like(ctx.saved_tensors[0])


@contextlib.contextmanager
def gpu_forms() -> Iterator[None]:
    """Inside, some functions of fake tensors are those of a GPU; `save_on_cpu` leaves it.

    The mask of dropout has a byte for each element; `rms_norm` keeps its input and a number for each row, and
    `logsigmoid` its input.
    """
    real, real_norm = functional.dropout, functional.rms_norm
    has_fused_norm = tuple(map(int, torch.__version__.split(".")[:2])) >= _FUSED_NORM

    def rms_norm(
        input: torch.Tensor,  # noqa: A002 - its name
        normalized_shape: list[int],
        weight: torch.Tensor | None = None,
        eps: float | None = None,
    ) -> torch.Tensor:
        is_fused = has_fused_norm and isinstance(input, FakeTensor)
        if not is_fused or (weight is not None and weight.dtype != input.dtype):
            return real_norm(input, normalized_shape, weight, eps)
        result: torch.Tensor = _RootMeanSquare.apply(  # type: ignore[no-untyped-call]
            input, weight, len(normalized_shape)
        )
        return result

    def dropout(
        input: torch.Tensor,  # noqa: A002 - its name
        p: float = 0.5,
        training: bool = True,  # noqa: FBT001, FBT002 - as torch has it
        inplace: bool = False,  # noqa: FBT001, FBT002 - as torch has it
    ) -> torch.Tensor:
        if inplace or not training or not 0 < p < 1:
            return real(input, p, training, inplace)
        result: torch.Tensor = torch.native_dropout(input, p, train=True)[0]
        return result

    real_log = functional.logsigmoid

    def logsigmoid(input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - its name
        if not isinstance(input, FakeTensor):
            return real_log(input)
        result: torch.Tensor = _LogSigmoid.apply(input)  # type: ignore[no-untyped-call]
        return result

    with (
        patched(functional, "dropout", dropout),
        patched(functional, "logsigmoid", logsigmoid),
        patched(functional, "rms_norm", rms_norm),
        wrapped(torch.autograd.graph.save_on_cpu, "__init__", _offloading),
    ):
        yield


def _offloading(real: Callable[..., None], hooks: Any, *args: Any, **named: Any) -> None:
    """Keep of a fake tensor that is saved on the CPU what makes it again: here all tensors are on the CPU."""
    real(hooks, *args, **named)
    pack, unpack = hooks.pack_hook, hooks.unpack_hook

    def packed(tensor: torch.Tensor) -> Any:
        if not isinstance(tensor, FakeTensor):
            return pack(tensor)
        return _Offloaded(tensor.size(), tensor.stride(), tensor.dtype)

    def unpacked(value: Any) -> torch.Tensor:
        if not isinstance(value, _Offloaded):
            return cast("torch.Tensor", unpack(value))
        return torch.empty_strided(value.size, value.stride, dtype=value.dtype)

    hooks.pack_hook, hooks.unpack_hook = packed, unpacked


class _Offloaded(NamedTuple):
    """A tensor that is not on the GPU."""

    size: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype


@contextlib.contextmanager
def list_optimizers() -> Iterator[None]:
    """Inside, an optimizer with the defaults works on lists of tensors, as torch chooses on a GPU.

    Its temporaries have the size of all parameters.
    """

    def chosen(*_args: Any, **_named: Any) -> tuple[bool, bool]:
        return False, True

    name = "_default_to_fused_or_foreach"
    with contextlib.ExitStack() as stack:
        for module in [module for key, module in sys.modules.items() if key.startswith("torch.optim.")]:
            if name in vars(module):
                stack.enter_context(patched(module, name, chosen))
        yield
