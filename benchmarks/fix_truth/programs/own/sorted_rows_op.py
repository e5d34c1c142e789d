"""Right: a helper of NumPy that detaches."""

import numpy as np
import torch


@torch.compiler.disable
def ranked(x):
    return torch.from_numpy(np.sort(x.detach().numpy(), axis=1))


# fuselight: order(f32[3, 4])
def order(x):
    return ranked(x) + x


def probe_flags():
    """gradients: the sorted part needs none."""
    x = torch.randn(2, 3, requires_grad=True)
    y = order(x)
    y.sum().backward()
    return ranked(x).requires_grad, y.requires_grad, x.grad


def probe_sizes():
    """size: other rows, none."""
    return order(torch.ones(1, 5)), order(torch.ones(0, 2))


def probe_dtypes():
    """dtype: integers and doubles."""
    return order(torch.tensor([[3, 1, 2]])), order(torch.tensor([[3.0, 1.0]], dtype=torch.float64))


def probe_vector():
    """size: a vector has no second axis."""
    return order(torch.ones(3))
