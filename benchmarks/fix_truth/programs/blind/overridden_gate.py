"""A method decides; a subclass answers with a bool, or counts."""
import torch
from torch import nn

# fuselight: Base()(f32[3])
class Base(nn.Module):
    def gate(self, x):
        return x.sum() > 0

    def forward(self, x):
        if self.gate(x):
            x = x * 2
        return x

class Always(Base):
    def gate(self, x):
        return True

class Never(Base):
    def gate(self, x):
        return None

class Counting(Base):
    asked = 0

    def gate(self, x):
        self.asked += 1
        return x.sum() > 0 and self.asked > 1

def probe_base():
    """output"""
    return Base()(torch.ones(2)), Base()(-torch.ones(2))

def probe_always():
    """other a subclass that says yes"""
    return Always()(torch.ones(2)), Never()(torch.ones(2))

def probe_counting():
    """state of a subclass"""
    net = Counting()
    return [net(torch.ones(2)), net(torch.ones(2)), net(-torch.ones(2))], net.asked

def probe_patched():
    """other a method that is replaced"""
    net = Base()
    net.gate = lambda x: x.shape[0] > 1
    return net(torch.ones(2)), net(torch.ones(1))

def probe_vector():
    """other a gate of one element"""
    net = Base()
    net.gate = lambda x: x[:1, None] > 0
    return net(torch.ones(2)).shape, net(-torch.ones(2)).shape
