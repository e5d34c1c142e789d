"""A slice by a number taken from a tensor."""
import torch


# fuselight: f(f32[8], i64[] % 4 + 2)
@torch.compile
def f(x, n):
    return x[: n.item()] * 2


def probe_zero():
    """empty: nothing is left."""
    return f(torch.ones(8), torch.tensor(0))


def probe_negative():
    """extreme: from the end."""
    return f(torch.arange(8.0), torch.tensor(-2))


def probe_beyond():
    """extreme: beyond the end."""
    return f(torch.arange(8.0), torch.tensor(50))


def probe_one():
    """size: one element."""
    return f(torch.arange(8.0), torch.tensor(1))


def probe_grad():
    """gradients: zeros beyond the slice."""
    x = torch.arange(4.0, requires_grad=True)
    f(x, torch.tensor(2)).sum().backward()
    return x.grad
