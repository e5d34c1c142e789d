"""The sides are Python numbers."""
import torch

# fuselight: weight(f32[4])
@torch.compile
def weight(x):
    w = 2 if x.sum() > 0 else 3
    return x * w, w

def probe_type():
    """output type"""
    y, w = weight(torch.ones(2))
    return y, type(w).__name__

def probe_integer():
    """dtype integer"""
    return weight(torch.tensor([1, -5], dtype=torch.int16))[0]
