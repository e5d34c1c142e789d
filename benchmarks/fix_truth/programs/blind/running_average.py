"""A float attribute is averaged with each call."""
import copy
import math
import torch
from torch import nn

# fuselight: Average()(f32[3])
# fuselight: Average()(f32[3])
# fuselight: Average()(f32[3])
class Average(nn.Module):
    def __init__(self):
        super().__init__()
        self.beta = 0.0

    def forward(self, x):
        self.beta = 0.9 * self.beta + 0.1
        return x * self.beta

def probe_math():
    """state used by math and comparisons"""
    m = Average()
    m(torch.ones(2))
    return math.sqrt(m.beta), m.beta == 0.1, isinstance(m.beta, float)

def probe_state_dict():
    """state of checkpoints"""
    m = Average()
    m(torch.ones(2))
    return sorted(m.state_dict()), [n for n, _ in m.named_buffers()]

def probe_deepcopy():
    """state of a copy"""
    m = Average()
    m(torch.ones(2))
    c = copy.deepcopy(m)
    c(torch.ones(2))
    return m.beta, c.beta

def probe_digits():
    """dtype float64 keeps digits"""
    m = Average()
    for _ in range(5):
        y = m(torch.ones(2, dtype=torch.float64))
    return y

def probe_double_module():
    """dtype after double()"""
    m = Average().double()
    return m(torch.ones(2)).dtype
