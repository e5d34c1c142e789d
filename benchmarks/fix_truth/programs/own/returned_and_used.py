"""a number is returned, too."""

import torch


# fuselight: peak(f32[4])
def peak(x):
    n = x.max().item()
    return {"scaled": x * n, "peak": n}


def probe_types():
    """output: the number is a float."""
    found = peak(torch.ones(2))
    return found, type(found["peak"]).__name__
