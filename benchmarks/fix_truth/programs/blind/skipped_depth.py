"""Layers are skipped by draws of Python, in training; a number of layers is drawn."""
import random
import torch
from torch import nn

# fuselight: Deep()(f32[2, 3], train=True)
class Deep(nn.Module):
    def __init__(self, drop=0.5):
        super().__init__()
        self.drop = drop
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))
        for layer in self.layers:
            nn.init.eye_(layer.weight)
            nn.init.ones_(layer.bias)

    def forward(self, x):
        for layer in self.layers:
            if self.training and random.random() < self.drop:
                continue
            x = layer(x)
        return x

def probe_eval():
    """mode evaluation takes all"""
    return Deep().eval()(torch.zeros(1, 3))

def probe_never():
    """option never dropped"""
    return Deep(0.0)(torch.zeros(1, 3)), Deep(0)(torch.zeros(1, 3))

def probe_always():
    """option always dropped"""
    x = torch.zeros(1, 3)
    return Deep(1.0)(x), Deep(2)(x)

def probe_share():
    """output both happen"""
    net = Deep()
    seen = {float(net(torch.zeros(1, 3)).sum()) for _ in range(60)}
    return torch.zeros(len(seen))

def probe_none():
    """option None fails in training alone"""
    try:
        return Deep(None).eval()(torch.zeros(1, 3)), Deep(None)(torch.zeros(1, 3))
    except TypeError:
        return "fails"

def probe_grad():
    """gradients of what is never dropped"""
    net = Deep(0.0)
    net(torch.ones(1, 3)).sum().backward()
    return [layer.weight.grad for layer in net.layers]
