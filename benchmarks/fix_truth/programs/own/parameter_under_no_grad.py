"""Right: a parameter that is made where nothing records gradients."""

import torch
from torch import nn


# fuselight: warp(f32[4])
def warp(x):
    with torch.no_grad():
        weight = nn.Parameter(torch.full((4,), 2.0))
        y = x * weight
    return y + x


def probe_flags():
    """gradients: of the argument only."""
    x = torch.ones(4, requires_grad=True)
    y = warp(x)
    y.sum().backward()
    return x.grad, warp(torch.ones(4)).requires_grad
