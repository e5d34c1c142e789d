"""The number of results depends on the data."""
import torch


# fuselight: f(i64[6] % 4)
@torch.compile
def f(x):
    return torch.unique(x) * 2


def probe_equal():
    """size: one value."""
    return f(torch.zeros(4, dtype=torch.int64))


def probe_empty():
    """empty: no value."""
    return f(torch.empty(0, dtype=torch.int64))


def probe_floats():
    """dtype: floats."""
    return f(torch.tensor([1.5, 1.5, 0.5]))
