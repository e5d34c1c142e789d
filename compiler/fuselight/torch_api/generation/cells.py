# ruff: noqa: SLF001, PLR0917 - private names are this package's business; the signatures are ATen's
"""Recurrent cells as ATen computes them on CUDA: two multiplications and one kernel of ATen's own.

Invariant: as aten/src/ATen/native/RNN.cpp does for CUDA tensors. Where that kernel has no shapes of its own in torch (a
real compile runs it on zeros), they are given while `cells_known` lasts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

import torch
import torch.library

_GRU_KEPT = 5
"""Gates that the kernel keeps for its backward."""


def lstm_cell(
    x: torch.Tensor,
    state: Sequence[torch.Tensor],
    w_ih: torch.Tensor,
    w_hh: torch.Tensor,
    b_ih: torch.Tensor | None = None,
    b_hh: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`torch.lstm_cell`."""
    from_input, from_state = torch.matmul(x, w_ih.t()), torch.matmul(state[0], w_hh.t())
    found = torch.ops.aten._thnn_fused_lstm_cell.default(from_input, from_state, state[1], b_ih, b_hh)
    return found[0], found[1]


def gru_cell(
    x: torch.Tensor,
    state: torch.Tensor,
    w_ih: torch.Tensor,
    w_hh: torch.Tensor,
    b_ih: torch.Tensor | None = None,
    b_hh: torch.Tensor | None = None,
) -> torch.Tensor:
    """`torch.gru_cell`."""
    from_input, from_state = torch.matmul(x, w_ih.t()), torch.matmul(state, w_hh.t())
    made: torch.Tensor = torch.ops.aten._thnn_fused_gru_cell.default(
        from_input, from_state, state, b_ih, b_hh
    )[0]
    return made


@contextlib.contextmanager
def cells_known() -> Iterator[None]:
    """Give the shapes of the GRU cell's kernels, where torch has none, until the block ends."""
    with torch.library._scoped_library("aten", "IMPL") as library:
        for name, shapes in (
            ("_thnn_fused_gru_cell", _gru_shapes),
            ("_thnn_fused_gru_cell_backward", _gru_backward_shapes),
        ):
            if not torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", "Meta"):
                library.impl(name, shapes, "Meta")
        yield


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
