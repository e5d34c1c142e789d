"""A side gives two values, an attribute, or a longer name; a comment goes with the branch."""
import torch
from torch import nn

# fuselight: Pair()(f32[4])
class Pair(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.tensor(1.0)

    def forward(self, x):
        m = x.mean()
        if m > 0:  # above
            a, b = x * 2, x.sum()
        else:
            # below
            a, b = x * 3, x.sum() + 1
        if m > 1:
            self.scale = self.scale * 2
        return a, b * self.scale

# fuselight: sized(f32[4])
@torch.compile
def sized(x):
    if x.sum() > 0:
        return x[:2]
    return x[-2:]

# fuselight: typed(f32[4])
@torch.compile
def typed(x):
    if x.sum() > 0:
        return x.to(torch.float64)
    return x.to(torch.float32)

def probe_pair():
    """state"""
    net = Pair()
    return [net(torch.full((2,), v)) for v in (0.5, -1.0, 2.0, 3.0)], net.scale

def probe_pair_objects():
    """state of two modules"""
    a, b = Pair(), Pair()
    a(torch.full((2,), 2.0))
    return a.scale, b.scale, list(a.state_dict())

def probe_pair_half():
    """dtype half"""
    net = Pair()
    return net(torch.ones(2).half() * 4), net.scale

def probe_sized():
    """size shorter"""
    return sized(torch.ones(4)), sized(-torch.ones(3)), sized(torch.ones(1)), sized(-torch.ones(1))

def probe_sized_memory():
    """output of the part"""
    x = torch.ones(4)
    sized(x).add_(5)
    return x

def probe_typed():
    """dtype differs by side"""
    return typed(torch.ones(2)), typed(-torch.ones(2)), typed(torch.tensor([1, 2]))
