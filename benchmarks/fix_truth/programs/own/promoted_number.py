"""A float number with integers."""
import torch


# fuselight: f(f32[4], f64[2])
def f(x, t):
    n = t.max().item()
    return x * n


def probe_integers():
    """dtype: integers times a Python float are float32."""
    return f(torch.tensor([1, 2, 3]), torch.tensor([0.5], dtype=torch.float64))


def probe_half():
    """dtype: half stays half."""
    return f(torch.ones(2, dtype=torch.float16), torch.tensor([0.5], dtype=torch.float64))


def probe_bool():
    """dtype: masks."""
    return f(torch.tensor([True, False]), torch.tensor([0.5], dtype=torch.float64))


def probe_precise():
    """dtype: a number that float32 does not have."""
    return f(torch.ones(2, dtype=torch.float64), torch.tensor([0.1], dtype=torch.float64))
