# ruff: noqa: SLF001, PLR0917 - private names are this package's business; the signatures are ATen's
"""Operators that ATen computes in another way on CUDA than on the CPU, in their CUDA form.

AOTAutograd traces on the CPU, where ATen would take these apart, or keep whole what CUDA takes apart. Invariant: each
matches aten/src/ATen/native for CUDA tensors, and every registration is removed when `cuda_operators` ends.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.library

_GRU_KEPT = 5
"""Gates that the kernel keeps for its backward."""
_COMPOSITE = torch._C.DispatchKey.CompositeImplicitAutograd
CUDA_WAY = {"_fused_rms_norm": "CPU", "native_channel_shuffle": "AutogradCPU"}
"""Operators that only one of the two devices takes apart, and the key by which the CPU then does what CUDA does.

With a kernel of the CPU's own, autograd differentiates the operator as a whole; with one of its autograd's, in parts.
"""


def lstm_cell(
    x: torch.Tensor,
    state: Sequence[torch.Tensor],
    w_ih: torch.Tensor,
    w_hh: torch.Tensor,
    b_ih: torch.Tensor | None = None,
    b_hh: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`torch.lstm_cell`: two multiplications and one kernel."""
    from_input, from_state = torch.matmul(x, w_ih.t()), torch.matmul(state[0], w_hh.t())
    actual_state = torch.ops.aten._thnn_fused_lstm_cell.default(from_input, from_state, state[1], b_ih, b_hh)
    return actual_state[0], actual_state[1]


def gru_cell(
    x: torch.Tensor,
    state: torch.Tensor,
    w_ih: torch.Tensor,
    w_hh: torch.Tensor,
    b_ih: torch.Tensor | None = None,
    b_hh: torch.Tensor | None = None,
) -> torch.Tensor:
    """`torch.gru_cell`: two multiplications and one kernel."""
    from_input, from_state = torch.matmul(x, w_ih.t()), torch.matmul(state, w_hh.t())
    tensor: torch.Tensor = torch.ops.aten._thnn_fused_gru_cell.default(
        from_input, from_state, state, b_ih, b_hh
    )[0]
    return tensor


@contextlib.contextmanager
def cuda_operators() -> Iterator[None]:
    """Have operators take the way that they take on CUDA while CPU tensors are traced, until the block ends."""
    aten: Any = torch.ops.aten
    with contextlib.ExitStack() as stack:
        for name in CUDA_WAY:
            stack.callback(_forget_dispatch, getattr(aten, name, None))
        library = stack.enter_context(torch.library._scoped_library("aten", "IMPL"))
        for name, shapes in (
            ("_thnn_fused_gru_cell", _gru_shapes),
            ("_thnn_fused_gru_cell_backward", _gru_backward_shapes),
            ("_transformer_encoder_layer_fwd", _encoder_shapes),
        ):
            if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "Meta"):
                library.impl(name, shapes, "Meta")
        for name, key in CUDA_WAY.items():
            operator = getattr(getattr(aten, name, None), "default", None)
            if operator is not None:
                library.impl(name, _as_composite(operator), key)
                operator._dispatch_cache.clear()
        for operator, whole in ((aten.softmax.int, aten._softmax), (aten.log_softmax.int, aten._log_softmax)):
            stack.enter_context(composite_replaced(operator, _half_to_float(operator, whole.default)))
        yield


@contextlib.contextmanager
def composite_replaced(operator: Any, function: Callable[..., Any]) -> Iterator[None]:
    """Have an operator that is made of others be made of what `function` calls, wherever it is traced."""
    before = operator.py_kernels.pop(_COMPOSITE, None)
    operator._dispatch_cache.clear()
    operator.py_impl(_COMPOSITE)(function)
    try:
        yield
    finally:
        del operator.py_kernels[_COMPOSITE]
        operator._dispatch_cache.clear()
        if before is not None:
            operator.py_impl(_COMPOSITE)(before)


def _forget_dispatch(operator: Any) -> None:
    if operator is not None:
        operator.default._dispatch_cache.clear()


def _as_composite(operator: Any) -> Callable[..., Any]:
    """What an operator computes by others."""

    def composite(*args: Any) -> Any:
        return operator._op_dk(_COMPOSITE, *args)

    return composite


def _half_to_float(operator: Any, whole: Any) -> Callable[..., torch.Tensor]:
    """`softmax(x, dtype=torch.float32)` of half precision: CUDA's kernel converts by itself."""

    def softmax(x: torch.Tensor, dim: int, dtype: torch.dtype | None = None) -> torch.Tensor:
        tensor: torch.Tensor
        if x.dtype == torch.float16 and dtype == torch.float32:
            tensor = whole(x, dim, True)  # noqa: FBT003 - ATen's flag
        else:
            tensor = operator._op_dk(_COMPOSITE, x, dim, dtype)
        return tensor

    return softmax


def _encoder_shapes(src: torch.Tensor, *_arguments: Any, **_named: Any) -> torch.Tensor:
    return torch.empty_like(src)


def _gru_shapes(
    input_gates: torch.Tensor,
    hidden_gates: torch.Tensor,
    hx: torch.Tensor,
    input_bias: torch.Tensor | None = None,
    hidden_bias: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    del input_gates, hidden_gates, input_bias, hidden_bias
    return torch.empty_like(hx), hx.new_empty(hx.size(0), hx.size(1) * _GRU_KEPT)


def _gru_backward_shapes(
    grad_hy: torch.Tensor,
    workspace: torch.Tensor,
    has_bias: bool,  # noqa: FBT001 - ATen's
) -> tuple[torch.Tensor | None, ...]:
    rows, size = workspace.size(0), workspace.size(1) // _GRU_KEPT
    gates = [workspace.new_empty(rows, 3 * size) for _ in range(2)]
    biases = [workspace.new_empty(3 * size) if has_bias else None for _ in range(2)]
    return (*gates, torch.empty_like(grad_hy), *biases)
