"""a condition of one element."""

import torch


# fuselight: flip(f32[1])
def flip(x):
    if x > 0:
        return -x
    return x * 2


def probe_two():
    """size: the truth of two elements is ambiguous."""
    return flip(torch.tensor([1.0, -1.0]))


def probe_rank():
    """size: a scalar."""
    return flip(torch.tensor(1.0))
