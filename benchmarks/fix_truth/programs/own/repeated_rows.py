"""Right: repeats that are written down."""

import torch


# fuselight: repeat(f32[3, 2])
def repeat(x):
    return torch.repeat_interleave(x, torch.tensor([2, 0, 3]), dim=0)


def probe_widths():
    """size: another width."""
    return repeat(torch.ones(3, 5)), repeat(torch.ones(3, 0))


def probe_wrong():
    """size: another number of rows fails."""
    return repeat(torch.ones(4, 2))


def probe_integers():
    """dtype: integers."""
    return repeat(torch.arange(6).view(3, 2))
