"""A global number that another file imports by name and changes."""
import torch

import settings

# fuselight: decay(f32[3])
@torch.compile
def decay(x):
    if x.norm() > settings.LIMIT:
        x = x * (settings.LIMIT / x.norm())
    return x


def probe_limit():
    """state of the limit"""
    settings.LIMIT = 0.5
    a = decay(torch.ones(2))
    settings.LIMIT = 10
    return a, decay(torch.ones(2)), decay(torch.tensor([0.0, 0.0]))


def probe_zero_limit():
    """extreme limit and zeros"""
    settings.LIMIT = 0
    return decay(torch.zeros(2)), decay(torch.ones(2))


def probe_alias():
    """output is the input"""
    settings.LIMIT = 10.0
    x = torch.ones(2)
    return decay(x) is x
