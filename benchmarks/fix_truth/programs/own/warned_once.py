"""A warning about large values."""
import warnings
import torch


# fuselight: f(f32[4])
@torch.compile
def f(x):
    y = x * 2
    warnings.warn("scaled")
    return y + 1


def probe_warns():
    """output: the warning."""
    return f(torch.ones(3))


def probe_double():
    """dtype: float64."""
    return f(torch.ones(3, dtype=torch.float64))
