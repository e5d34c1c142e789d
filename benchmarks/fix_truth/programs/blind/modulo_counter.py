"""A counter acts in every third call."""
import torch
from torch import nn

# fuselight: Third()(f32[3])
# fuselight: Third()(f32[3])
# fuselight: Third()(f32[3])
# fuselight: Third()(f32[3])
class Third(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = 0

    def forward(self, x):
        self.n += 1
        if self.n % 3 == 0:
            x = x * 10
        return x

def probe_nine():
    """state over nine calls"""
    m = Third()
    return [m(torch.ones(1)) for _ in range(9)], m.n

def probe_range():
    """state used as a range"""
    m = Third()
    m(torch.ones(1))
    m(torch.ones(1))
    return list(range(m.n)), [0] * m.n
