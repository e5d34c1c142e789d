"""What is printed takes from a queue, sets an attribute, or is asked from a property."""
import torch
from torch import nn

class Meter:
    def __init__(self):
        self.reads = 0
        self.values = [3.0, 2.0, 1.0, 0.5, 0.25, 0.125]

    @property
    def value(self):
        self.reads += 1
        return self.values[self.reads % 6]

# fuselight: Popped()(f32[3])
class Popped(nn.Module):
    def __init__(self):
        super().__init__()
        self.names = ["a", "b", "c", "d", "e", "f"] * 4

    def forward(self, x):
        print("next", self.names.pop())
        return x * len(self.names)

# fuselight: Read()(f32[3])
class Read(nn.Module):
    def __init__(self):
        super().__init__()
        self.meter = Meter()

    def forward(self, x):
        print("meter", self.meter.value)
        return x + self.meter.reads

# fuselight: Walrus()(f32[3])
class Walrus(nn.Module):
    def forward(self, x):
        print("n", n := x.shape[0])
        return x * n

def probe_popped():
    """state of the names"""
    net = Popped()
    return [net(torch.ones(1)), net(torch.ones(1))], len(net.names)

def probe_read():
    """values depend on the reads"""
    net = Read()
    return [net(torch.ones(1)), net(torch.ones(1))], net.meter.reads

def probe_walrus():
    """values are named while they are printed"""
    return Walrus()(torch.ones(2)), Walrus()(torch.ones(4))
