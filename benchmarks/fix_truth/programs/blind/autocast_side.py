"""One side is a product, which autocast makes lower precision."""
import torch
from torch import nn

# fuselight: Side()(f32[2, 3])
class Side(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.eye(3))

    def forward(self, x):
        if x.norm() > 1:
            y = x @ self.weight
        else:
            y = x * 2
        return y

def probe_usual():
    """output"""
    return Side()(torch.ones(2, 3)), Side()(torch.zeros(2, 3))

def probe_autocast():
    """dtype autocast"""
    with torch.autocast("cpu", torch.bfloat16):
        return Side()(torch.ones(2, 3)), Side()(torch.zeros(2, 3))

def probe_grad():
    """gradients of the weight"""
    net = Side()
    net(torch.zeros(2, 3)).sum().backward()
    return net.weight.grad

def probe_grad_taken():
    """gradients of the weight"""
    net = Side()
    net(torch.ones(2, 3)).sum().backward()
    return net.weight.grad

def probe_wide_weight():
    """size a weight of another size"""
    net = Side()
    net.weight = nn.Parameter(torch.ones(3, 5))
    return net(torch.ones(2, 3)).shape, net(torch.zeros(2, 3)).shape

def probe_frozen_double():
    """dtype double"""
    return Side().double()(torch.ones(2, 3).double())

def probe_inf():
    """nonfinite infinity in the side that is not taken"""
    x = torch.tensor([[float("nan"), 1.0, 1.0]])
    return Side()(x)
