"""A check of a tensor comes before a change of state; the caller expects its exception."""
import torch
from torch import nn

# fuselight: Guard()(f32[3])
class Guard(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        if x.min() < -5:
            raise ValueError("too small")
        self.seen += 1
        assert not torch.isnan(x).any(), "NaN"
        return x * self.seen

def probe_fine():
    """output"""
    return Guard()(torch.ones(2))

def probe_state():
    """state after a rejected call"""
    net = Guard()
    try:
        net(torch.tensor([-6.0]))
    except Exception:
        pass
    return net.seen

def probe_nan_state():
    """state after NaN"""
    net = Guard()
    try:
        net(torch.tensor([float("nan")]))
    except Exception:
        pass
    return net.seen

def probe_type():
    """other the type of the exception"""
    try:
        Guard()(torch.tensor([-6.0]))
    except ValueError:
        return "expected"
    except Exception as e:
        return type(e).__name__

def probe_empty():
    """empty fails"""
    try:
        return Guard()(torch.zeros(0))
    except Exception:
        return "fails"

def probe_int():
    """dtype integers"""
    return Guard()(torch.tensor([1, -5]))
