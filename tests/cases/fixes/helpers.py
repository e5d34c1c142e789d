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
    # +|@torch.library.custom_op("fixes_helpers::sort_rows", mutates_args=())
    # +|def sort_rows_operator(x: torch.Tensor) -> torch.Tensor:
    # -|    return torch.from_numpy(np.sort(rows, axis=1))
    # +|    return torch.from_numpy(np.sort(rows, axis=1)).contiguous()
    # +|
    # +|
    # +|@sort_rows_operator.register_fake
    # +|def _(x):
    # +|    return x.new_empty(x.shape)
    # +|
    # +|
    # +|def sort_rows(x: torch.Tensor) -> torch.Tensor:
    # +|    return sort_rows_operator(x).detach()


def span_mask(shape: tuple[int, int], share: float, length: int = 2) -> np.ndarray:
    """A mask with one span in each row."""
    rows, width = shape
    mask = np.zeros((rows, width), dtype=bool)
    if share == 0:
        return mask
    for row in range(rows):
        start = int(np.random.rand() * (width - length))
        # fix: [GB0033] custom_op "Make `span_mask` an operator of the graph"
        # = 1 -> 1 graphs, same results
        #  |    """A mask with one span in each row."""
        # +|    return span_mask_operator(shape, share, length).numpy()
        # +|
        # +|
        # +|@torch.library.custom_op("fixes_helpers::span_mask", mutates_args=(), tags=(torch.Tag.nondeterministic_seeded,))
        # +|def span_mask_operator(shape: list[int], share: float, length: int = 2) -> torch.Tensor:
        # -|        return mask
        # +|        return torch.from_numpy(mask)
        # -|    return mask
        # +|    return torch.from_numpy(mask)
        # +|
        # +|
        # +|@span_mask_operator.register_fake
        # +|def _(shape, share, length=2):
        # +|    rows, width = shape
        # +|    return torch.empty((rows, width), dtype=torch.bool)
        mask[row, start : start + length] = True
    return mask


# fuselight: masked(f32[2, 8], train=True)
def masked(x):
    mask = torch.as_tensor(span_mask(x.shape, 0.5), device=x.device)
    return x.masked_fill(mask, 0) * 2
