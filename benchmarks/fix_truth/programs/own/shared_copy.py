"""a shallow copy has a counter of its own."""

import copy

import torch
from torch import nn


# fuselight: Tally()(f32[4])
# fuselight: Tally()(f32[4])
# fuselight: Tally()(f32[4])
class Tally(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = 0

    def forward(self, x):
        self.seen += 1
        return x + self.seen


def probe_copy():
    """state: the copy counts alone."""
    one = Tally()
    two = copy.copy(one)
    one(torch.ones(2))
    return two(torch.ones(2))


def probe_compared():
    """state: counters of two objects are compared."""
    one, two = Tally(), Tally()
    return [getattr(net, name) for net in (one, two) for name in ("seen",)]
