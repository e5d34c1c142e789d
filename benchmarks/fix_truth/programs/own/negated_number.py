"""a negated unsigned number."""

import torch


# fuselight: mirrored(f32[4], i64[3] % 5)
def mirrored(x, t):
    n = t.max().item()
    return x * -n


def probe_unsigned():
    """dtype: -200 is no uint8."""
    return mirrored(torch.ones(2), torch.tensor([200], dtype=torch.uint8))


def probe_extreme():
    """extreme: the smallest int8."""
    return mirrored(torch.ones(2), torch.tensor([-128], dtype=torch.int8))
