"""int() of a floating-point tensor fails for NaN."""

import torch


# fuselight: cut(f32[4])
def cut(x):
    return x - int(x.mean())


def probe_nan():
    """nonfinite: an exception."""
    return cut(torch.tensor([float("nan")]))


def probe_infinite():
    """nonfinite: another exception."""
    return cut(torch.tensor([float("inf")]))


def probe_large():
    """extreme: more than int64."""
    return cut(torch.tensor([1e30]))
