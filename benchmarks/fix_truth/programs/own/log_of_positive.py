"""the logarithm of what a mask selects."""

import torch


# fuselight: logs(f32[6])
def logs(x):
    y = torch.zeros_like(x)
    m = x > 0
    y[m] = torch.log(x[m])
    return y


def probe_gradients():
    """gradients: finite where the mask is false."""
    x = torch.tensor([1.0, 0.0, -2.0], requires_grad=True)
    logs(x).sum().backward()
    return x.grad


def probe_none():
    """size: nothing is selected."""
    return logs(-torch.ones(2))
