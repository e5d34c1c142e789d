"""One side returns None."""
import torch

# fuselight: pick(f32[4])
@torch.compile
def pick(x):
    if x.sum() > 0:
        return x, None
    return x * 2, x.sum()

def probe_none():
    """output None"""
    return pick(torch.ones(2)), pick(-torch.ones(2))
