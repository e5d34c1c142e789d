"""The class counts the calls of all its instances."""
import torch
from torch import nn

# fuselight: Shared()(f32[3])
# fuselight: Shared()(f32[3])
# fuselight: Shared()(f32[3])
class Shared(nn.Module):
    total = 0

    def forward(self, x):
        Shared.total += 1
        return x * Shared.total

def probe_instances():
    """state of the class"""
    Shared.total = 0
    a, b = Shared(), Shared()
    a(torch.ones(1))
    y = b(torch.ones(1))
    return y, Shared.total, a.total, type(Shared.total).__name__
