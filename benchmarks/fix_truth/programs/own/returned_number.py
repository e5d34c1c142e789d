"""The number itself is returned."""
import torch


# fuselight: f(f32[4])
def f(x):
    n = x.abs().max().item()
    return x / n, n


def probe_type():
    """output: a Python float."""
    y, n = f(torch.tensor([2.0, -4.0]))
    return y, type(n).__name__


def probe_integers():
    """dtype: an int."""
    y, n = f(torch.tensor([2, -4]))
    return y, type(n).__name__, n
