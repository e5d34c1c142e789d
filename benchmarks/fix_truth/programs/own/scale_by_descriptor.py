"""A descriptor that fails before it is set, on one side."""
import torch
from torch import nn


class Scale:
    def __get__(self, owner, kind):
        owner.uses += 1
        if owner.broken:
            raise RuntimeError("no scale yet")
        return torch.ones(()) * 2


# fuselight: Net()(f32[4])
class Net(nn.Module):
    scale = Scale()

    def __init__(self):
        super().__init__()
        self.uses, self.broken = 0, False

    def forward(self, x):
        if x.sum() > 0:
            return x * self.scale
        return x * 3


def probe_broken():
    """other: the side that fails is not taken."""
    net = Net()
    net.broken = True
    return net(-torch.ones(2))


def probe_uses():
    """state: the side that counts is not taken."""
    net = Net()
    net(-torch.ones(2))
    return net.uses
