"""A function inside reads what the branch assigns."""

import torch


# fuselight: f(f32[4])
def f(x):
    scale = x * 1
    def apply(v):
        return v * scale
    if x.sum() > 0:
        scale = x * 2
    return apply(x)


def probe_sides():
    """other: the function sees the last value."""
    return f(torch.ones(2)), f(-torch.ones(2))
