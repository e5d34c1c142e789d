"""a sum over a batch of one."""

import torch


# fuselight: pool(f32[1, 4])
def pool(x):
    if x.max() > 0:
        return x.sum(0, keepdim=True)
    return x * 1


def probe_batch():
    """size: three rows become one."""
    return pool(torch.ones(3, 4)), pool(-torch.ones(3, 4))
