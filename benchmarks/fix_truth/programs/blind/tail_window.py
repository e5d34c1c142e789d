"""The last elements are taken, whose number is an attribute that shrinks to zero."""
import torch
from torch import nn

# fuselight: Tail()(f32[8])
# fuselight: Tail()(f32[8])
# fuselight: Tail()(f32[8])
class Tail(nn.Module):
    def __init__(self, size=6):
        super().__init__()
        self.register_buffer("weight", torch.tensor(2.0))
        self.size = size

    def forward(self, x):
        out = x[-self.size :].sum() * self.weight
        self.size = self.size - 1
        return out

def _calls(net, count):
    return [net(torch.arange(1.0, 9.0)) for _ in range(count)]

def probe_three():
    """output of three calls"""
    return _calls(Tail(), 3)

def probe_zero():
    """state a window of zero takes all elements, and a negative one leaves some out"""
    return _calls(Tail(1), 4)

def probe_attribute():
    """state the attribute is an integer"""
    net = Tail(3)
    _calls(net, 2)
    return [type(net.size).__name__, int(net.size)]

def probe_large():
    """size a window larger than the input"""
    return _calls(Tail(20), 2)

def probe_saved():
    """state what is saved"""
    net = Tail()
    _calls(net, 1)
    return list(net.state_dict())

def probe_set():
    """state another number is set from outside"""
    net = Tail()
    _calls(net, 2)
    net.size = 2
    return _calls(net, 1)

def probe_range():
    """other the attribute is a size elsewhere"""
    net = Tail(4)
    _calls(net, 1)
    return [list(range(net.size)), "abcdef"[net.size], f"{net.size:03d}", net.size / 2]

def probe_empty():
    """empty"""
    return Tail()(torch.zeros(0))
