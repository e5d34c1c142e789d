"""Right: an element that changes after the number was taken."""

import torch


# fuselight: shift(f32[5])
def shift(x):
    x = x.clone()
    first = x[0].item()
    x.add_(10)
    return x - first


def probe_values():
    """other: the number is the old one."""
    return shift(torch.arange(4.0)), shift(torch.ones(1))


def probe_double():
    """dtype: float64."""
    return shift(torch.arange(4, dtype=torch.float64) / 3)


def probe_gradients():
    """gradients: none through the number."""
    x = torch.ones(3, requires_grad=True)
    shift(x).sum().backward()
    return x.grad
