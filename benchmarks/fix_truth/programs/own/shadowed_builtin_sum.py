"""A list whose elements another `sum` adds."""

import torch


def sum(values):
    return values[0] * 10


# fuselight: f([f32[4]])
# fuselight: f([f32[4], f32[4]])
@torch.compile
def f(xs):
    return sum(xs)


def probe_sum():
    """other: the function of the file."""
    return f([torch.ones(2), torch.ones(2)])
