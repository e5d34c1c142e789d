"""A comparison of the user's that fails until it is ready, on the right of `and`."""
import torch
from torch import nn


class Limit:
    def __init__(self):
        self.value = 2.0
        self.asked = []

    def __lt__(self, other):
        self.asked.append(other)
        return self.value < other


# fuselight: Net()(f32[4])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.limit = Limit()

    def forward(self, x):
        if x.sum() > 0 and self.limit < 3:
            x = x * 2
        return x


def probe_asked():
    """state: it is asked only where the sum is positive."""
    net = Net()
    net(-torch.ones(2))
    return net.limit.asked
