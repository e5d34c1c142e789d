"""Numbers of calls are kept in a list, and copied to another module."""
import torch
from torch import nn

class Part(nn.Module):
    def __init__(self):
        super().__init__()
        self.offset = 0.0

    def forward(self, x):
        return x + self.offset

# fuselight: Whole()(f32[3])
# fuselight: Whole()(f32[3])
# fuselight: Whole()(f32[3])
class Whole(nn.Module):
    def __init__(self):
        super().__init__()
        self.level = 1.0
        self.part = Part()
        self.kept = []

    def forward(self, x):
        self.part.offset = self.level
        self.kept.append(self.level)
        self.level *= 0.5
        return self.part(x) * self.level

def probe_calls():
    """output of calls"""
    net = Whole()
    return [net(torch.ones(2)) for _ in range(3)]

def probe_kept():
    """state what was kept"""
    net = Whole()
    for _ in range(3):
        net(torch.ones(2))
    return [float(one) for one in net.kept], float(sum(net.kept))

def probe_part():
    """state of the part, used alone"""
    net = Whole()
    net(torch.ones(2))
    return net.part(torch.zeros(2)), net.part(torch.tensor(0.0)), net.part(torch.zeros(2, dtype=torch.int64))

def probe_half():
    """dtype half"""
    net = Whole().half()
    return [net(torch.ones(2).half()) for _ in range(2)]
