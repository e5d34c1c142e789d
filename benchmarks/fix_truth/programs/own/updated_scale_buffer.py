"""a number of a buffer that the call changes after it."""

import torch
from torch import nn


# fuselight: Norm()(f32[4])
class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(()))

    def forward(self, x):
        scale = self.scale.item()
        self.scale.mul_(2)
        return x * scale


def probe_calls():
    """state: the old scale counts."""
    net = Norm()
    return [net(torch.ones(2)) for _ in range(3)], net.scale


def probe_backward():
    """gradients: the buffer changes between forward and backward."""
    net = Norm()
    x = torch.ones(2, requires_grad=True)
    y = net(x)
    net(x)
    y.sum().backward()
    return x.grad
