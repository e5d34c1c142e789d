"""The counter starts as an attribute of the class, which other objects share."""
import torch
from torch import nn

# fuselight: Turn()(f32[3])
# fuselight: Turn()(f32[3])
# fuselight: Turn()(f32[3])
class Turn(nn.Module):
    turn = 0
    rate = 0.5

    def forward(self, x):
        self.turn += 1
        self.rate = self.rate * 0.9
        return x * self.turn - self.rate

def probe_objects():
    """state two objects count alone"""
    a, b = Turn(), Turn()
    return a(torch.ones(2)), a(torch.ones(2)), b(torch.ones(2)), Turn.turn, Turn.rate

def probe_class():
    """other the class is changed"""
    before = Turn.turn, Turn.rate
    Turn.turn, Turn.rate = 10, 1
    try:
        net = Turn()
        return net(torch.ones(2)), net(torch.ones(2, dtype=torch.int64))
    finally:
        Turn.turn, Turn.rate = before

def probe_half():
    """dtype half"""
    net = Turn()
    return net(torch.ones(2).half()), net(torch.ones(2).half())
