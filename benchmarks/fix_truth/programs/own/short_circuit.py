"""A condition whose second part is computed only if the first holds."""
import torch


# fuselight: f(f32[4], i64[] % 3 + 1, 10)
def f(x, d, n):
    if d != 0 and n // d > 2:
        x = x * 2
    return x + 1


def probe_zero():
    """extreme: a divisor of zero is not divided by."""
    return f(torch.ones(4), torch.tensor(0), 10)


def probe_large():
    """size: another side."""
    return f(torch.ones(3), torch.tensor(7), 10)


def probe_true():
    """size: one element."""
    return f(torch.ones(1), torch.tensor(1), 10)
