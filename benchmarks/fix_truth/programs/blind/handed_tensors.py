"""A result is changed in place by modules and callers that no name in the file shows."""
import torch
from torch import nn

class Maybe(nn.Module):
    def forward(self, x):
        if x.mean() > 0:
            x = x * 2
        return x

# fuselight: Chain()(f32[2, 3])
class Chain(nn.Module):
    def __init__(self):
        super().__init__()
        self.parts = nn.Sequential(Maybe(), nn.ReLU(inplace=True))
        self.last = None

    def forward(self, x):
        y = x - 1
        self.last = y
        return self.parts(y)

def probe_chain():
    """state what is kept sees the change"""
    net = Chain()
    return net(torch.zeros(1, 2)), net.last, net(torch.full((1, 2), 3.0)), net.last

def probe_part():
    """output of the argument"""
    x = torch.tensor([[-1.0, -2.0]])
    nn.Sequential(Maybe(), nn.ReLU(inplace=True))(x)
    return x

def probe_applied():
    """output a method by its name"""
    x = torch.tensor([[-1.0, -2.0]])
    getattr(Maybe()(x), "add" + "_")(1)
    return x

def probe_grad():
    """gradients"""
    x = torch.zeros(1, 2, requires_grad=True)
    Chain()(x).sum().backward()
    return x.grad

def probe_leaf():
    """gradients a leaf that is changed in place fails"""
    x = torch.tensor([[-1.0, 3.0]], requires_grad=True)
    try:
        return nn.Sequential(Maybe(), nn.ReLU(inplace=True))(x).sum()
    except RuntimeError:
        return "fails"
