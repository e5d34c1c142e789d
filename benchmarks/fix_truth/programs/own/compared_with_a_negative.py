"""an unsigned number compared with -1."""

import torch


# fuselight: gated(f32[3], i64[2] % 3)
def gated(x, t):
    if t.min().item() > -1:
        return x * 2
    return x + 1


def probe_unsigned():
    """dtype: -1 is 255 for uint8."""
    return gated(torch.ones(2), torch.tensor([3], dtype=torch.uint8))


def probe_large():
    """extreme: large integers."""
    return gated(torch.ones(2), torch.tensor([-(2**62)]))
