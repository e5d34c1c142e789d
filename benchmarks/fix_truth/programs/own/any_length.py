"""Right: the size of the argument varies."""

import torch


# fuselight: smooth(f32[4])
# fuselight: smooth(f32[9])
@torch.compile
def smooth(x):
    return (x * 2).cumsum(0)


def probe_sizes():
    """size: many, and none."""
    return [smooth(torch.ones(n)) for n in (0, 1, 2, 5, 33)]


def probe_dtype():
    """dtype: half."""
    return smooth(torch.ones(3, dtype=torch.float16))
