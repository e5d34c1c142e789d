"""A subclass overrides a method whose name a split could take; a timer is around the rest."""
import time
import torch
from torch import nn

# fuselight: Encoder()(f32[2, 3])
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(3, 3)
        self.seconds = []

    @torch.compile
    def forward(self, x, scale=1.0, *, bias=None, **rest):
        start = time.perf_counter()
        y = self.proj(x) * scale
        if bias is not None:
            y = y + bias
        for name in sorted(rest):
            y = y + rest[name]
        self.seconds.append(time.perf_counter() - start)
        return y

    def _compiled_forward(self, x):
        return x * 0

class Other(Encoder):
    def _compiled_forward(self, x, *args, **kwargs):
        return x - 100

def _filled(kind):
    net = kind()
    nn.init.ones_(net.proj.weight)
    nn.init.zeros_(net.proj.bias)
    return net

def probe_usual():
    """output"""
    net = _filled(Encoder)
    return net(torch.ones(1, 3)), len(net.seconds)

def probe_named():
    """option keywords"""
    net = _filled(Encoder)
    return net(torch.ones(1, 3), bias=torch.ones(3), a=1.0, b=torch.ones(3)), len(net.seconds)

def probe_subclass():
    """other a subclass with a method of that name"""
    net = _filled(Other)
    return net(torch.ones(1, 3), 2.0), len(net.seconds)

def probe_own():
    """other the method itself"""
    return _filled(Encoder)._compiled_forward(torch.ones(2))

def probe_error():
    """state nothing is kept where it fails"""
    net = _filled(Encoder)
    try:
        net(torch.ones(1, 4))
    except Exception:
        return len(net.seconds)
