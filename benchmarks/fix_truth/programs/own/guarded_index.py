"""The second part indexes what the first part checks."""
import torch


# fuselight: f(f32[4])
def f(x):
    if x.numel() > 3 and x[3] > 0:
        x = x + 1
    return x * 2


def probe_short():
    """size: shorter than the index."""
    return f(torch.ones(2))


def probe_empty():
    """empty: no element."""
    return f(torch.empty(0))


def probe_long():
    """size: longer."""
    return f(-torch.ones(5)), f(torch.ones(5))
