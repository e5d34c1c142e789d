"""a property with an effect on one side."""

import torch
from torch import nn


# fuselight: Lazy()(f32[4])
class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.reads = 0

    @property
    def gain(self):
        self.reads += 1
        return torch.ones(4)

    def forward(self, x):
        if x.sum() > 0:
            return x * self.gain
        return x - 1


def probe_reads():
    """state: the property is read by one side."""
    net = Lazy()
    net(-torch.ones(4))
    return net.reads
