"""A power with a number taken from a tensor."""
import torch


# fuselight: f(f32[4], i64[3] % 4)
def f(x, t):
    n = t.max().item()
    return x * 10 ** n


def probe_large():
    """extreme: 10 ** 25 is no int64."""
    return f(torch.ones(4), torch.tensor([25]))


def probe_negative():
    """extreme: a negative exponent."""
    return f(torch.ones(4), torch.tensor([-2]))


def probe_plain():
    """size: another length."""
    return f(torch.ones(7), torch.tensor([1, 2]))
