"""Prints a value and a shape."""
import torch

# fuselight: trace(f32[3])
@torch.compile
def trace(x):
    y = x * 2
    print("sum is", y.sum())
    return y + 1

def probe_printed():
    """output printed"""
    return trace(torch.tensor([1.0, 2.0]))

def probe_integer():
    """dtype printed"""
    return trace(torch.tensor([1, 2]))

def probe_empty():
    """empty printed"""
    return trace(torch.ones(0))
