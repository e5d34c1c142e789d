"""Right: a tensor divided by its own maximum, as a number."""

import torch


# fuselight: norm(f32[4, 2])
def norm(x):
    peak = x.abs().max().item()
    return x / peak + peak


def probe_dtypes():
    """dtype: halves, doubles and integers."""
    base = torch.tensor([[1.0, -3.0], [2.0, 0.5]])
    return [norm(base.to(d)) for d in (torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.uint8)]


def probe_scalar():
    """size: no dimensions."""
    return norm(torch.tensor(3.0)), norm(torch.tensor(3.0, dtype=torch.float64))


def probe_gradients():
    """gradients: the number has none."""
    x = torch.tensor([1.0, -4.0], requires_grad=True)
    norm(x).sum().backward()
    return x.grad


def probe_empty():
    """empty: no maximum."""
    return norm(torch.empty(0, 2))


def probe_zero():
    """extreme: division by zero gives infinity in both."""
    return norm(torch.zeros(2, 2))
