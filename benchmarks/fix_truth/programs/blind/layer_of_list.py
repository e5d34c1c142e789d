"""An integer attribute is an index, a count and part of a name."""
import torch
from torch import nn

# fuselight: Cycle()(f32[3])
# fuselight: Cycle()(f32[3])
# fuselight: Cycle()(f32[3])
# fuselight: Cycle()(f32[3])
class Cycle(nn.Module):
    def __init__(self, start=0):
        super().__init__()
        self.turn = start
        self.parts = nn.ModuleList([nn.Identity(), nn.Softmax(-1), nn.ReLU()])

    def forward(self, x):
        part = self.parts[self.turn % 3]
        for _ in range(self.turn % 2):
            x = x + self.turn
        self.turn += 1
        return part(x), self.turn, f"turn{self.turn}"

def probe_turns():
    """state of turns"""
    net = Cycle()
    return [net(torch.ones(3)) for _ in range(5)], net.turn

def probe_negative():
    """values a negative start"""
    net = Cycle(-2)
    return [net(torch.ones(3)) for _ in range(4)]

def probe_large():
    """extreme a large start"""
    net = Cycle(2**62)
    return net(torch.zeros(2)), Cycle(2**63 - 1).turn

def probe_bool():
    """option a bool as start"""
    net = Cycle(True)
    return [net(torch.ones(3)) for _ in range(2)]
