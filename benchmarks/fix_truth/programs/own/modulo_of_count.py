"""modulo and integer division of a number."""

import torch


# fuselight: wrapped(f32[4], i64[3] % 5 + 1)
def wrapped(x, t):
    n = t.sum().item()
    return x * (n % 3) + n // 2


def probe_negative():
    """extreme: negative numbers."""
    return wrapped(torch.ones(2), torch.tensor([-7])), wrapped(torch.ones(2), torch.tensor([-1, 0]))


def probe_unsigned():
    """dtype: small unsigned integers."""
    return wrapped(torch.ones(2), torch.tensor([200, 100], dtype=torch.uint8))
