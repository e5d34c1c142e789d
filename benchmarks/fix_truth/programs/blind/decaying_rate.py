"""A rate decays with each call; the module may be converted to half precision."""
import copy

import torch
from torch import nn

# fuselight: Decay()(f32[3])
# fuselight: Decay()(f32[3])
# fuselight: Decay()(f32[3])
class Decay(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.rate = 1.0

    def forward(self, x):
        self.rate = self.rate * 0.9995
        return x * self.scale * self.rate

def _after(net, count, dtype=torch.float32):
    with torch.no_grad():
        return [net(torch.ones(2, dtype=dtype)) for _ in range(count)][-1]

def probe_three():
    """output after three calls"""
    return _after(Decay(), 3)

def probe_many():
    """output after many calls"""
    return _after(Decay(), 60)

def probe_half():
    """half a module in half precision keeps the digits of its rate"""
    return _after(Decay().half(), 60, torch.float16)

def probe_double():
    """dtype double"""
    return _after(Decay().double(), 20, torch.float64)

def probe_converted_later():
    """half after calls, the module is converted and back"""
    net = Decay()
    _after(net, 5)
    return _after(net.half().float(), 5)

def probe_copied():
    """state a copy goes on alone"""
    net = Decay()
    _after(net, 4)
    other = copy.deepcopy(net)
    _after(other, 4)
    return _after(net, 1)

def probe_shallow():
    """state a shallow copy has a rate of its own"""
    net = Decay()
    other = copy.copy(net)
    _after(other, 30)
    return _after(net, 1)

def probe_inference():
    """mode a call in inference mode, then training"""
    net = Decay()
    with torch.inference_mode():
        net(torch.ones(2))
    net(torch.ones(2)).sum().backward()
    return net.scale.grad

def probe_applied():
    """state all parameters and buffers are filled"""
    net = Decay()
    net._apply(lambda tensor: tensor * 2)
    return _after(net, 1)

def probe_buffers():
    """state the number of tensors"""
    net = Decay()
    _after(net, 1)
    return [len(list(net.state_dict())), len(list(net.parameters()))]
