"""Rows that are not finite are left out of a projection; their zeros would be NaN in its gradients."""
import torch
from torch import nn

# fuselight: Rows()(f32[5, 3])
class Rows(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(3, 3)

    def forward(self, x):
        y = torch.zeros_like(x)
        keep = torch.isfinite(x).all(-1)
        y[keep] = self.proj(x[keep])
        return y

def _net():
    net = Rows()
    nn.init.ones_(net.proj.weight)
    nn.init.ones_(net.proj.bias)
    return net

def probe_usual():
    """output"""
    return _net()(torch.ones(2, 3))

def probe_nan():
    """nonfinite rows"""
    return _net()(torch.tensor([[1.0, 2.0, 3.0], [float("nan"), 1.0, 1.0]]))

def probe_nan_grad():
    """nonfinite gradients of the weight"""
    net = _net()
    net(torch.tensor([[1.0, 2.0, 3.0], [float("nan"), 1.0, 1.0], [float("inf"), 1.0, 1.0]])).sum().backward()
    return net.proj.weight.grad, net.proj.bias.grad

def probe_none():
    """values no row is kept"""
    return _net()(torch.full((2, 3), float("nan")))

def probe_half():
    """dtype half"""
    return _net().half()(torch.ones(2, 3).half())

def probe_hook():
    """hooks see the rows that are kept"""
    net, seen = _net(), []
    net.proj.register_forward_hook(lambda _m, args, _out: seen.append(tuple(args[0].shape)))
    net(torch.tensor([[1.0, 2.0, 3.0], [float("nan"), 1.0, 1.0]]))
    return seen

def probe_3d():
    """rank a batch of rows"""
    return _net()(torch.ones(2, 2, 3))
