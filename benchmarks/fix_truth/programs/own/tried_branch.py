"""A branch in `try`, whose side fails."""

import torch


# fuselight: f(f32[4])
def f(x):
    try:
        if x.sum() > 0:
            y = x * 2
        else:
            y = x @ x
    except RuntimeError:
        y = x * 0
    return y


def probe_matrix():
    """size: a matrix that has no square."""
    return f(torch.ones(2, 3)), f(-torch.ones(2, 3))
