"""A layer is skipped for calm inputs."""
import torch
from torch import nn

# fuselight: Calm()(f32[2, 4])
class Calm(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))

    def forward(self, x):
        for layer in self.layers:
            if x.abs().max() < 0.1:
                continue
            x = layer(x)
        return x

def probe_skipped():
    """gradients of skipped layers"""
    m = Calm()
    x = torch.full((2, 4), 0.01, requires_grad=True)
    m(x).sum().backward()
    return x.grad, [p.grad for p in m.parameters()]

def probe_empty():
    """empty batch raises"""
    try:
        return Calm()(torch.ones(0, 4))
    except Exception as e:
        return type(e).__name__
