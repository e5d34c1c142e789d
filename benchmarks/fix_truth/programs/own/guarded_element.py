"""the second operand reads an element that may not be there."""

import torch


# fuselight: f(f32[4])
def f(x):
    if x.sum() >= 0 and x[2] > 0:
        return x * 2
    return x - 1


def probe_short():
    """size: two elements, with a negative sum."""
    return f(torch.tensor([-1.0, -2.0]))
