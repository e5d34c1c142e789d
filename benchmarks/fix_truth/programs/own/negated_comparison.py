"""`not (a > b)` is not `a <= b`."""

import torch


# fuselight: f(f32[4])
def f(x):
    if not x.max() > 0:
        return x * 2
    return x - 1


def probe_nan():
    """nonfinite: a NaN is not greater."""
    return f(torch.tensor([float("nan"), 1.0]))


def probe_zero():
    """extreme: negative zero."""
    return f(torch.tensor([-0.0, -1.0]))
