"""A parameter is created in forward."""
import torch
from torch import nn

# fuselight: Prompted()(f32[2, 4])
class Prompted(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(4, 4)

    def forward(self, x):
        bias = nn.Parameter(torch.full((4,), 0.5))
        return self.proj(x) + bias, bias

def probe_flags():
    """output flags of the parameter"""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        y, b = Prompted()(torch.ones(2, 4))
    return y.requires_grad, b.requires_grad, type(b).__name__, b.is_leaf

def probe_backward():
    """gradients of the returned parameter"""
    torch.manual_seed(0)
    y, b = Prompted()(torch.ones(2, 4))
    y.sum().backward()
    return b.grad
