"""A float attribute that varies."""
import torch
from torch import nn


# fuselight: Net()(f32[4])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.momentum = 0.1

    def forward(self, x):
        y = x * self.momentum
        self.momentum *= 0.5
        return y


def probe_three():
    """state: three calls."""
    net = Net()
    return [net(torch.ones(2)) for _ in range(3)], net.momentum


def probe_double():
    """dtype: float64 has more digits."""
    net = Net()
    net(torch.ones(2))
    return net(torch.ones(2, dtype=torch.float64)), net.momentum


def probe_tiny():
    """extreme: many calls."""
    net = Net()
    for _ in range(200):
        y = net(torch.ones(1))
    return y, net.momentum
