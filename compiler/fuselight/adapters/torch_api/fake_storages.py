"""Storages of results that are larger in a real operator than in its form on fake tensors.

Invariant: a real tensor keeps its storage, and no size or stride changes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor

from fuselight.adapters.torch_api.cpu_workspaces import lstm_kept
from fuselight.adapters.torch_api.operator_workspaces import operator_name, reduced_loss

_LOSSES = frozenset({"aten::mse_loss", "aten::smooth_l1_loss"})
"""Their number is in the storage that had the loss of each element, and stays as large."""
_LSTM = "aten::mkldnn_rnn_layer"


def keep_real_sizes(operator: Any, arguments: tuple[Any, ...], result: Any) -> None:
    """Give the result of an operator the storage that it has without fake tensors."""
    name = operator_name(operator)
    if name in _LOSSES and not result.dim():
        _resize(result, reduced_loss(arguments, result))
    elif name == _LSTM and arguments[-1]:
        _resize(result[-1], lstm_kept(arguments))


def _resize(tensor: torch.Tensor, size: int) -> None:
    if isinstance(tensor, FakeTensor):
        tensor.untyped_storage().resize_(size)
