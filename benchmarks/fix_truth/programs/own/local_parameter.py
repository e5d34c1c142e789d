"""a parameter that is made in the call."""

import torch
from torch import nn


# fuselight: warp(f32[4])
def warp(x):
    weight = nn.Parameter(torch.full((4,), 2.0))
    return x * weight


def probe_flag():
    """mode: the result requires a gradient."""
    with torch.enable_grad():
        return warp(torch.ones(4)).requires_grad


def probe_no_grad():
    """mode: without gradients it does not."""
    with torch.no_grad():
        return warp(torch.ones(4)).requires_grad
