"""Sides that differ by little."""
import torch


# fuselight: f(f32[4])
def f(x):
    if x.mean() > 0:
        y = x * 1e-7
    else:
        y = x * 2e-7
    return y


def probe_both():
    """size: both sides."""
    return f(torch.ones(3)), f(-torch.ones(3))


def probe_half():
    """dtype: tiny numbers in half precision."""
    return f(torch.ones(3, dtype=torch.float16))


def probe_grad():
    """gradients: tiny."""
    x = torch.ones(2, requires_grad=True)
    f(x).sum().backward()
    return x.grad
