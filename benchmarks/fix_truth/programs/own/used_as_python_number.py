"""a float argument that Python uses."""

import torch


# fuselight: step(f32[4], 0.5)
# fuselight: step(f32[4], 0.25)
@torch.compile
def step(x, rate):
    warm = rate * 10
    return x * min(warm, 1.0), round(rate, 1)


def probe_numbers():
    """output: types of what comes back."""
    found = step(torch.ones(2), 0.34)
    return found, type(found[1]).__name__
