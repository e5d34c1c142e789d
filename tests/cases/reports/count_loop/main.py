"""A solver that loops until NumPy counts one result."""
import numpy as np
import torch


@torch.compile
def shrink(x, limit=6):  # info: [FL101] "`shrink` is not compiled: torch skipped it"
    for _ in range(limit):
        x = torch.where(x.abs() > 0.5, x * 0.5, torch.zeros_like(x))
        if np.count_nonzero(x.numpy()) <= 1:
        # warning: [GB0170] "graph break: a branch depends on the data of a tensor"
            break
    return x


if __name__ == "__main__":
    torch.manual_seed(0)
    print(shrink(torch.randn(10)))
# run by: make corpora
