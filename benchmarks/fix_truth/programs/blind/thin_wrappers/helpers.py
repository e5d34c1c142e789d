import numpy as np
import torch

CALLS = []


@torch.compiler.disable
def rank_rows(x):
    CALLS.append(tuple(x.shape))
    order = np.argsort(x.detach().numpy(), axis=-1)
    return torch.from_numpy(order.astype(np.float32))


@torch.compiler.disable
def scatter(rows, columns):
    grid = np.zeros((rows, columns))
    for row in range(rows):
        grid[row, row % columns] = 1
    return torch.from_numpy(grid)
