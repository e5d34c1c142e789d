"""The last total is read from a buffer of one element before the buffer changes."""
import torch
from torch import nn

# fuselight: Trend()(f32[4])
class Trend(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.ones(1))

    def forward(self, x):
        before = self.total.reshape(()).item()
        self.total.add_(x.sum())
        return self.total * before

def _calls(*batches):
    net = Trend()
    with torch.no_grad():
        return [[net(one).clone(), net.total.clone()] for one in batches]

def probe_one():
    """output of a call"""
    return _calls(torch.tensor([1.0, 2.0]))

def probe_three():
    """state over calls"""
    return _calls(torch.ones(2), torch.full((3,), -2.0), torch.tensor([0.5]))

def probe_zero():
    """state a total of zero"""
    return _calls(torch.tensor([-1.0]), torch.tensor([3.0]))

def probe_wide():
    """size a buffer of two raises"""
    net = Trend()
    net.total = torch.ones(2)
    try:
        return net(torch.ones(2))
    except RuntimeError:
        return "raised"

def probe_nan():
    """nonfinite"""
    return _calls(torch.tensor([float("nan")]), torch.ones(1))
