"""other code sets the counter."""

import torch
from torch import nn


# fuselight: Ticker()(f32[4])
# fuselight: Ticker()(f32[4])
# fuselight: Ticker()(f32[4])
class Ticker(nn.Module):
    def __init__(self):
        super().__init__()
        self.ticks = 0

    def forward(self, x):
        self.ticks += 1
        return x * self.ticks


def restart(net):
    net.ticks = 0


def probe_restart():
    """state: a reset between calls, and the type."""
    net = Ticker()
    net(torch.ones(2))
    restart(net)
    return net(torch.ones(2)), type(net.ticks).__name__
