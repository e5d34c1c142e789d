"""a number divided by a tensor."""

import torch


# fuselight: inverse(f32[4])
def inverse(x):
    top = x.max().item()
    return top / x


def probe_tiny():
    """extreme: the reciprocal of a denormal number is infinity."""
    return inverse(torch.tensor([1e-40, 1e-40]))


def probe_integers():
    """dtype: integers."""
    return inverse(torch.tensor([1, 2, 4]))
