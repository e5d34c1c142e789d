"""what the branch gives is changed in place."""

import torch


# fuselight: f(f32[4])
def f(x):
    y = x
    if x.sum() > 0:
        y = x * 2
    y += 1
    return y


def probe_argument():
    """state: the argument changes on one side only."""
    a, b = torch.ones(2), -torch.ones(2)
    return f(a), f(b), a, b
