"""The mean of what a mask selects."""

import torch


# fuselight: mean_of(f32[4], bool[4])
@torch.compile
def mean_of(x, mask):
    return x[mask].mean()


def probe_half():
    """extreme: the sum exceeds what float16 holds."""
    x = torch.full((64,), 4096.0, dtype=torch.float16)
    return mean_of(x, torch.ones(64, dtype=torch.bool))


def probe_none():
    """empty: the mask selects nothing."""
    return mean_of(torch.ones(4), torch.zeros(4, dtype=torch.bool))


def probe_rows():
    """size: a mask of rows."""
    return mean_of(torch.arange(6.0).reshape(2, 3), torch.tensor([True, False]))


def probe_nan():
    """nonfinite: outside of the mask."""
    return mean_of(torch.tensor([1.0, float("nan"), 3.0]), torch.tensor([True, False, True]))
