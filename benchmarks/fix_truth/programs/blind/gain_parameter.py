"""A side multiplies by a parameter without dimensions, which does not widen a half vector, but widens a half number."""
import torch
from torch import nn

# fuselight: Louder()(f32[2, 3])
class Louder(nn.Module):
    def __init__(self):
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(2.0))

    def forward(self, x):
        if x.mean() > 0:
            x = x * self.gain
        return x

def probe_usual():
    """output"""
    return Louder()(torch.ones(1, 2)), Louder()(-torch.ones(1, 2))

def probe_half():
    """half precision"""
    return Louder()(torch.ones(1, 2).half()), Louder()(-torch.ones(1, 2).half())

def probe_scalar():
    """rank none"""
    return Louder()(torch.tensor(1.0)), Louder()(torch.tensor(-1.0))

def probe_scalar_half():
    """rank none in half precision"""
    return Louder()(torch.tensor(-1.0).half()), Louder()(torch.tensor(-1.0).bfloat16())

def probe_integer():
    """dtype integers fail in mean"""
    try:
        return Louder()(torch.tensor([1, 2]))
    except RuntimeError:
        return "fails"

def probe_swapped():
    """rank another parameter"""
    net = Louder()
    net.gain = nn.Parameter(torch.tensor([2.0, 3.0]))
    return net(torch.ones(1, 1)), net(-torch.ones(1, 1))

def probe_swapped_double():
    """dtype a double parameter in one dimension"""
    net = Louder()
    net.gain = nn.Parameter(torch.tensor([2.0], dtype=torch.float64))
    return net(torch.ones(1, 1)), net(-torch.ones(1, 1))
