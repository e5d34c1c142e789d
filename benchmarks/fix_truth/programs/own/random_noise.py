"""Right: a random factor."""

import random

import torch


# fuselight: f(f32[4])
def f(x):
    return x * (1 + random.random())


def probe_range():
    """other: between one and two times."""
    y = f(torch.ones(3))
    return bool((y >= 1).all()), bool((y <= 2).all()), y.dtype, f(torch.ones(3, dtype=torch.int64)).dtype


def probe_double():
    """dtype: float64 stays."""
    return f(torch.ones(2, dtype=torch.float64)).dtype
