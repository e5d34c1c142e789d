"""A counter chooses from a list."""
import torch
from torch import nn


# fuselight: Net()(f32[4])
# fuselight: Net()(f32[4])
class Net(nn.Module):
    names = ["a", "b", "c"]

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return x * self.calls

    def name(self):
        return self.names[self.calls % 3]


def probe_name():
    """state: the counter is an index."""
    net = Net()
    net(torch.ones(2))
    return net.name(), net.calls


def probe_reset():
    """state: the counter is set from outside."""
    net = Net()
    net(torch.ones(2))
    net.calls = 0
    return net(torch.ones(2)), net.calls


def probe_half():
    """dtype: half precision."""
    return Net().half()(torch.ones(2, dtype=torch.float16))
