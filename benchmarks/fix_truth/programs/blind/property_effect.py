"""A property counts its reads."""
import torch
from torch import nn

# fuselight: Meter()(f32[3])
class Meter(nn.Module):
    def __init__(self):
        super().__init__()
        self.reads = 0
        self.w = nn.Parameter(torch.ones(3))

    @property
    def gain(self):
        self.reads += 1
        return self.w * 2

    def forward(self, x):
        if x.sum() > 0:
            return x * self.gain
        return x

def probe_reads():
    """state of the counter"""
    m = Meter()
    m(torch.ones(3))
    m(-torch.ones(3))
    return m.reads

def probe_grads():
    """gradients when not used"""
    m = Meter()
    (m(-torch.ones(3, requires_grad=True))).sum().backward()
    return m.w.grad
