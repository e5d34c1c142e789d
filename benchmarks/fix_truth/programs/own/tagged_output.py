"""A number becomes part of a text."""
import torch


# fuselight: f(f32[4])
def f(x):
    n = x.max().item()
    return {"value": x * n, "name": f"peak {n:.2f}"}


def probe_name():
    """output: the text."""
    return f(torch.tensor([1.0, 2.0]))


def probe_double():
    """dtype: float64."""
    return f(torch.tensor([0.1], dtype=torch.float64))
