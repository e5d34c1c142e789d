"""a masked assignment that reads what it writes."""

import torch


# fuselight: safe(f32[4], f32[4].abs() + 1)
def safe(x, w):
    y = x * 2
    m = x > 0
    y[m] = y[m] / w[m]
    return y


def probe_gradients():
    """gradients: backward must not fail."""
    x, w = torch.ones(3, requires_grad=True), torch.full((3,), 2.0, requires_grad=True)
    safe(x, w).sum().backward()
    return x.grad, w.grad


def probe_zero():
    """extreme: zeros where nothing is selected."""
    return safe(-torch.ones(2), torch.zeros(2))
