"""A loop runs while a tensor is large."""
import torch

# fuselight: halve(f32[3])
@torch.compile
def halve(x):
    n = 0
    while x.abs().max() > 1:
        x = x / 2
        n += 1
    return x, n

def probe_many():
    """extreme many steps"""
    return halve(torch.tensor([1000.0, 3.0]))

def probe_none():
    """extreme no step"""
    return halve(torch.zeros(2))
