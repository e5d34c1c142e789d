"""A helper fills a new array with random numbers."""
import numpy as np
import torch

def noise(shape, scale=1.0):
    out = np.zeros(shape, dtype=np.float32)
    for i in range(shape[0]):
        out[i] = np.random.normal(0, scale, shape[1:])
    return out

# fuselight: disturb(f32[3, 2])
@torch.compile
def disturb(x):
    return x + torch.from_numpy(noise(tuple(x.shape)))

def probe_seeded():
    """other values of a seed"""
    np.random.seed(5)
    return disturb(torch.zeros(4, 2))

def probe_state():
    """state of the generator"""
    np.random.seed(5)
    disturb(torch.zeros(4, 2))
    return float(np.random.rand())

def probe_direct():
    """output of the helper"""
    np.random.seed(1)
    out = noise((2, 2), scale=0.1)
    return type(out).__name__, str(out.dtype), out.shape

def probe_double():
    """dtype float64"""
    np.random.seed(2)
    return disturb(torch.zeros(2, 2, dtype=torch.float64))
