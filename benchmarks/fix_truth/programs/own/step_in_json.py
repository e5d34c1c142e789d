"""A counter is written as JSON."""
import json
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = 0
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x):
        self.step += 1
        return x * self.scale / self.step

    def state(self):
        return json.dumps({"step": self.step})

net = Net()


# fuselight: f(f32[4])
@torch.compile
def f(x):
    return net(x)


def probe_state():
    """state: as JSON."""
    f(torch.ones(2))
    return net.state()


def probe_keys():
    """state: the state dict."""
    return list(net.state_dict())
