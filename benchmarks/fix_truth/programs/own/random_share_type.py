"""A random number that is also returned."""

import random

import torch


# fuselight: f(f32[4])
def f(x):
    share = random.random()
    return x * share, share


def probe_type():
    """output: a float comes back."""
    return type(f(torch.ones(2))[1]).__name__
