"""Fixes of calls of helpers that torch.compile does not trace."""

import numpy as np
import torch


@torch.compiler.disable
def sort_rows(x):
    """Sort each row."""
    rows = x.detach().numpy()
    return torch.from_numpy(np.sort(rows, axis=1))


# fuselight: disabled(f32[4, 3], train=True)
def disabled(x):
    return sort_rows(x) + x * 2
    # fix: [GB0098] custom_op "Make `sort_rows` an operator of the graph"
    # = 1 -> 1 graphs, same results
    # -|@torch.compiler.disable
    # -|def sort_rows(x):
    # +|@torch.library.custom_op("helpers::sort_rows", mutates_args=())
    # +|def sort_rows(x: torch.Tensor) -> torch.Tensor:
    # -|    return torch.from_numpy(np.sort(rows, axis=1))
    # +|    return torch.from_numpy(np.sort(rows, axis=1)).contiguous()
    # +|
    # +|
    # +|@sort_rows.register_fake
    # +|def _(x):
    # +|    return x.new_empty(x.shape)
    # +|
    # +|
    # +|sort_rows.register_autograd(lambda context, gradient: None)
