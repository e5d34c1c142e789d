"""Parent and child both measure their forward; the child calls its parent's."""
import time
import torch
from torch import nn

# fuselight: Parent()(f32[3])
class Parent(nn.Module):
    def forward(self, x):
        start = time.time()
        y = x * 2
        print("parent", time.time() - start >= 0)
        return y

# fuselight: Child()(f32[3])
class Child(Parent):
    def forward(self, x):
        start = time.time()
        y = super().forward(x) + 1
        print("child", time.time() - start >= 0)
        return y

class Grandchild(Child):
    def forward(self, x):
        return super().forward(x) * 10

def probe_child():
    """output of the child"""
    return Child()(torch.ones(2))

def probe_parent():
    """output of the parent"""
    return Parent()(torch.ones(2))

def probe_grandchild():
    """output of a class below"""
    return Grandchild()(torch.ones(2))

def probe_error():
    """other nothing is printed where the call fails"""
    try:
        return Child()(None)
    except TypeError as e:
        return type(e).__name__

def probe_unbound():
    """other called by the class"""
    return Parent.forward(Child(), torch.ones(1))
