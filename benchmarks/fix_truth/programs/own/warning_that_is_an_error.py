"""A warning of which a filter makes an error, before something changes."""
import warnings
import torch
from torch import nn


# fuselight: Net()(f32[4])
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.steps = 0

    def forward(self, x):
        warnings.warn("slow path")
        self.steps += 1
        return x * 2


def probe_error():
    """output: the warning is an error, and nothing changes."""
    net = Net()
    net.forward = torch.compile(net.forward, backend="eager")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        try:
            net(torch.ones(2))
        except UserWarning as error:
            return str(error), net.steps
    return "no error", net.steps
