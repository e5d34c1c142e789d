"""A side of a branch reads a parameter or a buffer; the module is changed between calls."""
import torch
from torch import nn

# fuselight: Scale()(f32[2, 3])
class Scale(nn.Module):
    def __init__(self, value=2.0):
        super().__init__()
        self.weight = nn.Parameter(torch.full((3,), float(value)))
        self.register_buffer("offset", torch.zeros(3))
        self.limit = 1.0

    def forward(self, x):
        peak = x.abs().amax()
        if peak > self.limit:
            out = x * self.weight / peak
        else:
            out = x * self.weight + self.offset
        self.offset.add_(0.5)
        return out

def probe_usual():
    """state"""
    net = Scale()
    return [net(torch.ones(1, 3)), net(torch.ones(1, 3) * 4), net.offset]

def probe_limits():
    """option other limits"""
    out = []
    for limit in (0, -1.0, float("inf"), True):
        net = Scale()
        net.limit = limit
        out.append(net(torch.ones(1, 3)))
    return out

def probe_tensor_limit():
    """other a tensor as limit"""
    net = Scale()
    net.limit = torch.tensor([0.5])
    return net(torch.ones(1, 3))

def probe_zeros():
    """gradients of zeros"""
    x = torch.zeros(1, 3, requires_grad=True)
    net = Scale()
    net(x).sum().backward()
    return x.grad, net.weight.grad

def probe_ties():
    """gradients of ties"""
    x = torch.tensor([[2.0, -2.0, 1.0]], requires_grad=True)
    net = Scale()
    net(x).sum().backward()
    return x.grad, net.weight.grad

def probe_half_input():
    """dtype a half input and single weights"""
    return Scale()(torch.ones(1, 3).half()), Scale()(torch.ones(1, 3).half() * 4)

def probe_vector():
    """rank none and more"""
    return Scale()(torch.tensor(0.5)), Scale()(torch.ones(2, 2, 3))

def probe_weight_none():
    """other the weight is gone"""
    net = Scale()
    net.weight = None
    try:
        return net(torch.ones(1, 3))
    except TypeError:
        return "fails"
