"""Rows that are not finite are left as zeros, and must not reach the weights."""
import torch
from torch import nn

# fuselight: Encoder()(f32[3, 4], train=True)
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.mlp = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4))

    def forward(self, x):
        y = torch.zeros_like(x)
        valid = x.isfinite().all(-1)
        y[valid] = self.mlp(x[valid])
        return y

def _rows(*bad):
    x = torch.arange(12.0).reshape(3, 4) / 10
    for row, value in bad:
        x[row, 1] = value
    return x

def _trained(x):
    net = Encoder()
    y = net(x)
    y.sum().backward()
    return [y, *(one.grad for one in net.parameters())]

def probe_finite():
    """gradients all rows"""
    return _trained(_rows())

def probe_nan():
    """nonfinite gradients of the weights with a row of NaN"""
    return _trained(_rows((1, float("nan"))))

def probe_nan_gradients():
    """gradients of the weights, whose rows of NaN are not selected"""
    return _trained(_rows((0, float("nan")), (2, float("nan"))))

def probe_inf():
    """gradients of the weights, whose row of infinity is not selected"""
    return _trained(_rows((2, float("inf"))))

def probe_eval():
    """nonfinite values"""
    with torch.no_grad():
        return Encoder().eval()(_rows((1, float("nan"))))

def probe_none():
    """nonfinite no row is finite"""
    return Encoder()(torch.full((2, 4), float("nan")))

def probe_empty():
    """empty no rows"""
    return Encoder()(torch.zeros(0, 4))

def probe_batch():
    """size a batch of sequences"""
    return Encoder()(torch.stack([_rows(), _rows((1, float("nan")))]))

def probe_hook():
    """hooks see the rows that are computed"""
    net = Encoder()
    seen = []
    net.mlp.register_forward_pre_hook(lambda _, args: seen.append(len(args[0])))
    net(_rows((1, float("nan"))))
    return seen
