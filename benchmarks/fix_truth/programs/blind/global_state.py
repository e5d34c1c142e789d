"""A global number is read and another function changes it."""
import torch

SCALE = 1

def set_scale(value):
    global SCALE
    SCALE = value

# fuselight: scaled(f32[3])
@torch.compile
def scaled(x):
    return x * SCALE

def probe_change():
    """state of the global"""
    a = scaled(torch.ones(2))
    set_scale(5)
    b = scaled(torch.ones(2))
    set_scale(2.5)
    return a, b, scaled(torch.ones(2)), scaled(torch.tensor([1, 2]))
