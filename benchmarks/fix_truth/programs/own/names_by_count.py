"""the counter is an index of a list."""

import torch
from torch import nn


# fuselight: Steps()(f32[4])
# fuselight: Steps()(f32[4])
# fuselight: Steps()(f32[4])
class Steps(nn.Module):
    def __init__(self):
        super().__init__()
        self.names = ["a", "b", "c", "d"]
        self.at = 0

    def forward(self, x):
        self.at = (self.at + 1) % 4
        return x + self.at

    def name(self):
        return self.names[self.at]


def probe_name():
    """state: the name of the step."""
    net = Steps()
    net(torch.ones(2))
    return net.name()
