"""a helper that fails for tensors that require gradients."""

import numpy as np
import torch


@torch.compiler.disable
def flipped(x):
    return torch.from_numpy(np.roll(x.numpy(), 1))


# fuselight: turn(f32[3, 2])
def turn(x):
    return flipped(x) * 2


def probe_gradients():
    """gradients: an exception."""
    return turn(torch.ones(2, 2, requires_grad=True))


def probe_sizes():
    """size: another rank."""
    return turn(torch.arange(3.0))
