"""The condition has one element in two dimensions; the sides have none, or more."""
import torch
from torch import nn

# fuselight: Gate()(f32[1, 4])
class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(4, 1)

    def forward(self, x):
        level = x.mean()
        if self.gate(x) > 0:
            level = level * 2
        return level


def _net(sign):
    net = Gate()
    nn.init.constant_(net.gate.weight, sign)
    nn.init.zeros_(net.gate.bias)
    return net

def probe_taken():
    """output keeps no dimension"""
    return _net(1.0)(torch.ones(1, 4)).shape, _net(-1.0)(torch.ones(1, 4)).shape

def probe_vector():
    """rank without a batch"""
    return [_net(s)(torch.ones(4)) for s in (1.0, -1.0)]

def probe_two_rows():
    """size two rows are ambiguous"""
    try:
        return _net(1.0)(torch.ones(2, 4))
    except Exception as e:
        return type(e).__name__

def probe_deep():
    """rank more dimensions"""
    return _net(1.0)(torch.ones(1, 1, 1, 4)).shape

def probe_grad():
    """gradients of the gate are None"""
    net = _net(1.0)
    net(torch.ones(1, 4, requires_grad=True)).backward()
    return net.gate.weight.grad

def probe_nan():
    """nonfinite NaN takes the other side"""
    return _net(1.0)(torch.full((1, 4), float("nan")))
