"""A name that the condition binds."""

import torch


# fuselight: f(f32[4])
def f(x):
    if (total := x.sum()) > 0:
        return x * total
    return x - total


def probe_sides():
    """other: both sides."""
    return f(torch.ones(2)), f(-torch.ones(2))
