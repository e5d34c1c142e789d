"""The sum of a list of integers keeps its dtype."""

import torch


# fuselight: f([f32[4]])
# fuselight: f([f32[4], f32[4]])
@torch.compile
def f(xs):
    return sum(xs)


def probe_integers():
    """dtype: int32 stays int32."""
    return f([torch.ones(2, dtype=torch.int32), torch.ones(2, dtype=torch.int32)])


def probe_many():
    """size: five tensors."""
    return f([torch.ones(3)] * 5)
