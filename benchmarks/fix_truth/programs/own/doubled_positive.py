"""Right: a masked assignment into a copy."""

import torch


# fuselight: double(f32[4, 3])
def double(x):
    y = x.clone()
    y[x > 0] = x[x > 0] * 2
    return y


def probe_argument():
    """state: the argument stays."""
    x = torch.tensor([1.0, -1.0])
    return double(x), x


def probe_gradients():
    """gradients: of a leaf."""
    x = torch.tensor([1.0, -1.0, 0.0], requires_grad=True)
    double(x).sum().backward()
    return x.grad


def probe_sizes():
    """size: other ranks, none."""
    return double(torch.ones(2, 2, 2)), double(torch.ones(0, 3))
