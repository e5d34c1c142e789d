"""A parameter that is created in forward."""
import torch
from torch import nn


# fuselight: Net()(f32[2, 4])
class Net(nn.Module):
    def forward(self, x):
        bias = nn.Parameter(torch.zeros(4))
        return x + bias


def probe_flag():
    """gradients: the output requires them."""
    y = Net()(torch.ones(2, 4))
    return y, y.requires_grad


def probe_backward():
    """gradients: backward runs."""
    y = Net()(torch.ones(3, 4))
    y.sum().backward()
    return y


def probe_no_grad():
    """mode: without gradients."""
    with torch.no_grad():
        y = Net()(torch.ones(1, 4))
    return y
