"""A tensor is printed, and changed in place on the next line."""
import torch
from torch import nn

# fuselight: Step()(f32[3])
class Step(nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0

    def forward(self, x):
        y = x * 2
        print("before", y)
        y.add_(1)
        print("after", y)
        return y

def probe_usual():
    """values printed before and after"""
    return Step()(torch.ones(2))

def probe_grad():
    """gradients"""
    x = torch.ones(2, requires_grad=True)
    Step()(x).sum().backward()
    return x.grad

def probe_no_grad():
    """mode no gradients"""
    with torch.no_grad():
        return Step()(torch.ones(2))

def probe_int():
    """dtype integers"""
    return Step()(torch.arange(3))

def probe_empty():
    """empty"""
    return Step()(torch.zeros(0))

def probe_half():
    """dtype half"""
    with torch.no_grad():
        return Step()(torch.ones(2, dtype=torch.float16))
