"""a copy loses what the function writes."""

import torch


# fuselight: bump(f32[4, 6])
# fuselight: bump(f32[6, 4].t())
@torch.compile
def bump(x):
    x.add_(1)
    return x * 2


def probe_argument():
    """state: a transposed argument changes."""
    x = torch.zeros(3, 2).t()
    return bump(x), x
