"""Scales by a peak that is read as a number."""
import torch

# fuselight: normalize(f32[4, 8])
@torch.compile
def normalize(x):
    peak = x.abs().max().item()
    if peak > 0:
        x = x / peak
    return x

def probe_zeros():
    """extreme zeros stay zeros"""
    return normalize(torch.zeros(3, 4))

def probe_integers():
    """dtype of integers"""
    return normalize(torch.tensor([[1, -4], [2, 3]]))

def probe_half():
    """dtype of half precision"""
    return normalize(torch.tensor([[1.5, -4.0]], dtype=torch.float16))

def probe_nan():
    """nonfinite values"""
    return normalize(torch.tensor([[1.0, float("nan")]]))

def probe_grad():
    """gradients through the peak"""
    x = torch.tensor([[1.0, -4.0], [2.0, 3.0]], requires_grad=True)
    normalize(x).sum().backward()
    return x.grad
