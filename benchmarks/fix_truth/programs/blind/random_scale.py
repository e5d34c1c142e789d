"""NumPy's random number scales a tensor; the caller seeds NumPy."""
import numpy as np
import torch

# fuselight: jitter(f32[4])
@torch.compile
def jitter(x):
    return x * np.random.rand()

def probe_shape():
    """other shape and dtype stay"""
    y = jitter(torch.ones(2, dtype=torch.float16))
    return y.shape, y.dtype

def probe_range():
    """other range"""
    y = jitter(torch.ones(1))
    return bool((y >= 0).all()), bool((y < 1).all())

def probe_integer():
    """dtype integer becomes float"""
    return jitter(torch.tensor([1, 2])).dtype
