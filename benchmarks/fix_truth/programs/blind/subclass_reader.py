"""A subclass reads the attribute of its base."""
import torch
from torch import nn

# fuselight: Base()(f32[3])
# fuselight: Base()(f32[3])
# fuselight: Base()(f32[3])
class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.depth = 0

    def forward(self, x):
        self.depth += 1
        return x * self.depth

class Named(Base):
    def name(self):
        return "level " + str(self.depth) + "." * self.depth

def probe_name():
    """state in text"""
    m = Named()
    m(torch.ones(1))
    return m.name()

def probe_dict_key():
    """state as a key"""
    m = Base()
    m(torch.ones(1))
    return {1: "one"}.get(m.depth), m.depth in (1, 2)
