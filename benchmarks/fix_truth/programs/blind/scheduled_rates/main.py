"""A rate comes from a configuration of another file, whose callers give integers and None, too."""
import torch
from torch import nn

from config import Config, damping

# fuselight: Decay(Config(0.5))(f32[3])
# fuselight: Decay(Config(0.25))(f32[3])
class Decay(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.level = config.level

    def forward(self, x):
        if x.abs().max().item() > self.config.level:
            x = damping(x, self.level)
        self.level = self.level * 0.5
        return x


def probe_levels():
    """output levels"""
    return [Decay(Config(v))(torch.tensor([1.0, -2.0])) for v in (0.5, 1, 2, 3.5)]

def probe_repeated():
    """state of repeated calls"""
    net = Decay(Config(0.5))
    return [net(torch.tensor([1.0, -2.0])) for _ in range(3)], net.level

def probe_integer():
    """dtype an integer level and integers"""
    net = Decay(Config(1))
    return net(torch.tensor([4, -2])), net(torch.tensor([4, -2]))

def probe_tie():
    """values a tie with a decimal"""
    return Decay(Config(0.1))(torch.tensor([0.1])), Decay(Config(0.1))(torch.tensor([0.1]).double())

def probe_none():
    """option no level fails"""
    try:
        return Decay(Config(None))(torch.ones(2))
    except TypeError:
        return "fails"

def probe_nan():
    """nonfinite"""
    return Decay(Config(0.5))(torch.tensor([float("nan"), 3.0]))
