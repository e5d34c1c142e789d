"""Prints a parameter, a loss with its gradient, and a flag."""
import torch
from torch import nn

# fuselight: Gain()(f32[3])
class Gain(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(2.0))

    def forward(self, x):
        y = x * self.gain
        print("gain", self.gain, "sum", y.sum(), y.sum() > 0)
        return y + 1

def probe_no_grad():
    """mode without gradients"""
    with torch.no_grad():
        return Gain()(torch.ones(2))

def probe_grad():
    """mode with gradients"""
    return Gain()(torch.ones(2))

def probe_frozen():
    """mode with a frozen parameter"""
    net = Gain()
    net.requires_grad_(False)
    return net(torch.ones(2))

def probe_half():
    """dtype half precision"""
    with torch.no_grad():
        return Gain().half()(torch.ones(2, dtype=torch.float16))

def probe_integers():
    """dtype integers"""
    with torch.no_grad():
        return Gain()(torch.arange(3))

def probe_precision():
    """output with the caller's options of printing"""
    torch.set_printoptions(precision=1)
    try:
        with torch.no_grad():
            return Gain()(torch.tensor([1 / 3]))
    finally:
        torch.set_printoptions(profile="default")

def probe_nan():
    """nonfinite"""
    with torch.no_grad():
        return Gain()(torch.tensor([float("nan"), float("inf")]))

def probe_twice():
    """state two calls print twice"""
    net = Gain()
    with torch.no_grad():
        return [net(torch.ones(1)), net(torch.zeros(1))]
