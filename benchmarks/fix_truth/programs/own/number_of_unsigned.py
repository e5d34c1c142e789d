"""A number taken from integers of several dtypes, as an operand."""

import torch


# fuselight: shifted(i64[4] % 3)
@torch.compile
def shifted(x):
    n = x.max().item()
    return x * (n - 5)


def probe_unsigned():
    """dtype: the number is no uint8 in Python."""
    return shifted(torch.tensor([0, 1, 2], dtype=torch.uint8))


def probe_small():
    """extreme: int8 wraps."""
    return shifted(torch.tensor([100, -100, 2], dtype=torch.int8))


def probe_size():
    """size: another length."""
    return shifted(torch.arange(7))


def probe_empty():
    """empty: no maximum."""
    return shifted(torch.empty(0, dtype=torch.int64))
