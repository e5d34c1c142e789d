"""A number of an integer tensor divides."""
import torch


# fuselight: f(f32[4], i64[3] % 4 + 1)
@torch.compile
def f(x, t):
    n = t.max().item()
    return x / n


def probe_zero():
    """extreme: division by zero raises in Python? x / 0 is infinity."""
    return f(torch.ones(4), torch.tensor([0]))


def probe_double():
    """dtype: float64 inputs."""
    return f(torch.ones(4, dtype=torch.float64) / 3, torch.tensor([3]))


def probe_integers():
    """dtype: an integer by an integer."""
    return f(torch.tensor([1, 2, 3]), torch.tensor([2]))
