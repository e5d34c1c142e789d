"""the second operand of `and` fails without the first."""

import torch


# fuselight: f(f32[4], i64[] + 6, i64[] + 3)
def f(x, n, d):
    if d != 0 and n // d > 2:
        x = x * 2
    return x


def probe_zero():
    """extreme: a divisor of zero."""
    return f(torch.ones(2), torch.tensor(5), torch.tensor(0))


def probe_values():
    """other: both sides."""
    return f(torch.ones(2), torch.tensor(9), torch.tensor(3)), f(torch.ones(2), torch.tensor(1), torch.tensor(3))
