"""A formatted number is printed."""
import torch


# fuselight: f(f32[4])
@torch.compile
def f(x):
    y = x - 1
    print(f"mean {y.mean().item():.3f}")
    return y * 3


def probe_text():
    """output: three digits."""
    return f(torch.tensor([1.23456, 2.0]))


def probe_nan():
    """nonfinite: nan."""
    return f(torch.tensor([float("nan")]))


def probe_big():
    """extreme: large numbers."""
    return f(torch.tensor([1e30]))
