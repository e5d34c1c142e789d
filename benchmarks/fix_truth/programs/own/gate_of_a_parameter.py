"""a parameter on one side only."""

import torch
from torch import nn


# fuselight: Gate()(f32[4])
class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.ones(4))

    def forward(self, x):
        if x.mean() > 0:
            x = x * self.gain
        return x


def probe_gradients():
    """gradients: None where the gain is not used."""
    net = Gate()
    net(-torch.ones(4).requires_grad_()).sum().backward()
    return net.gain.grad


def probe_width():
    """size: one column is broadcast by the gain only."""
    return Gate()(torch.ones(2, 1)), Gate()(-torch.ones(2, 1))
