"""An index, an inverse and a division are guarded by a test of tensors."""
import torch
from torch import nn

# fuselight: Lookup()(i64[3] % 4, f32[3, 2])
class Lookup(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("table", torch.arange(8.0).reshape(4, 2))

    def forward(self, index, x):
        if index.max() < 4:
            x = x + self.table[index]
        return x

# fuselight: solved(f32[2, 2])
@torch.compile
def solved(x):
    if torch.det(x) != 0:
        x = torch.inverse(x)
    return x

# fuselight: shared(i64[3] % 9, i64[] % 3)
@torch.compile
def shared(x, parts):
    if parts != 0:
        x = x % parts
    return x

def probe_lookup():
    """values outside of the table"""
    return Lookup()(torch.tensor([0, 9, 1]), torch.zeros(3, 2)), Lookup()(torch.tensor([0, 3, -1]), torch.zeros(3, 2))

def probe_solved():
    """values singular"""
    return solved(torch.zeros(2, 2)), solved(torch.eye(2) * 2), solved(torch.ones(2, 2))

def probe_solved_grad():
    """gradients of a singular matrix"""
    x = torch.zeros(2, 2, requires_grad=True)
    solved(x).sum().backward()
    return x.grad

def probe_shared():
    """values zero parts"""
    return shared(torch.tensor([5, 7]), torch.tensor(0)), shared(torch.tensor([5, 7]), torch.tensor(3))

def probe_shared_float():
    """dtype floats"""
    return shared(torch.tensor([5.5]), torch.tensor(0.0)), shared(torch.tensor([5, 7]), torch.tensor(2.5))
