"""Keyword-only and default arguments of a compiled function whose scale varies."""
import inspect
import torch

# fuselight: blend(f32[3], scale=0.5)
# fuselight: blend(f32[3], scale=0.6)
# fuselight: blend(f32[3], scale=0.7)
@torch.compile
def blend(x, *, scale=1.0, offset=0):
    """Blends."""
    return x * scale + offset

def probe_defaults():
    """dtype of integers, with other defaults"""
    return blend(torch.ones(2)), blend(torch.tensor([1, 2])), blend(torch.ones(2), offset=3)

def probe_signature():
    """output signature and doc"""
    f = inspect.unwrap(blend)
    return str(inspect.signature(blend)), blend.__name__, f.__doc__
