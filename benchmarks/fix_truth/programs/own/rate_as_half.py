"""a float attribute, and the module becomes half precision."""

import torch
from torch import nn


# fuselight: Decay()(f32[2, 4])
# fuselight: Decay()(f32[2, 4])
# fuselight: Decay()(f32[2, 4])
class Decay(nn.Module):
    def __init__(self):
        super().__init__()
        self.rate = 1.0
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        self.rate = self.rate * 0.9
        return self.layer(x) * self.rate


def probe_half():
    """dtype: after half() the rate keeps its digits."""
    net = Decay().half()
    for _ in range(20):
        y = net(torch.ones(1, 4, dtype=torch.float16))
    return y, net.rate


def probe_calls():
    """state: the rate is a float."""
    net = Decay()
    net(torch.ones(1, 4))
    return net.rate
