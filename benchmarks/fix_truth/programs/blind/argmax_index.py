"""An index from argmax selects a layer."""
import torch
from torch import nn

# fuselight: Switch()(f32[2, 4])
class Switch(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))
        self.router = nn.Linear(4, 3)

    def forward(self, x):
        k = self.router(x).mean(0).argmax().item()
        return self.layers[k](x)

def probe_grads():
    """gradients of the layers that were not chosen"""
    m = Switch()
    m(torch.ones(1, 4)).sum().backward()
    return [p.grad is None for p in m.parameters()]

def probe_values():
    """other inputs"""
    m = Switch()
    return [m(torch.full((1, 4), float(v))) for v in (-5, 0, 5)]
