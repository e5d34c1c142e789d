"""Right: a tuple for a list, which is only read."""

import torch


# fuselight: mix([f32[4], f32[4]])
# fuselight: mix((f32[4], f32[4]))
@torch.compile
def mix(parts):
    first, second = parts
    return first * 2 + second


def probe_both():
    """other: a list and a tuple."""
    a, b = torch.ones(3), torch.arange(3.0)
    return mix([a, b]), mix((b, a))


def probe_argument():
    """state: the list stays."""
    parts = [torch.ones(2), torch.zeros(2)]
    mix(parts)
    return parts
