"""A list and then a tuple are passed; the list is stored."""
import torch
from torch import nn

# fuselight: Store()([f32[2], f32[2]])
# fuselight: Store()((f32[2], f32[2]))
class Store(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = None

    def forward(self, xs):
        self.last = xs
        return xs[0] + xs[1]

def probe_identity():
    """state keeps the caller's object"""
    m, xs = Store(), [torch.ones(2), torch.ones(2)]
    m(xs)
    return m.last is xs, type(m.last).__name__

def probe_tuple():
    """state keeps a tuple"""
    m = Store()
    m((torch.ones(2), torch.ones(2)))
    return type(m.last).__name__
