"""Right: a counter that only computes with a tensor."""

import torch
from torch import nn


# fuselight: Net()(f32[4])
# fuselight: Net()(f32[4])
# fuselight: Net()(f32[4])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.turn = 0

    def reset(self):
        self.turn = 0

    def forward(self, x):
        self.turn += 1
        return x + self.turn


def probe_calls():
    """state: many calls, a reset between."""
    net = Net()
    found = [net(torch.ones(3)) for _ in range(3)]
    net.reset()
    return [*found, net(torch.zeros(2))]


def probe_state_dict():
    """state: no key comes."""
    net = Net()
    net(torch.ones(2))
    return list(net.state_dict())


def probe_integers():
    """dtype: integers stay integers."""
    net = Net()
    return net(torch.ones(3, dtype=torch.int32)), net(torch.ones(3, dtype=torch.float16))
