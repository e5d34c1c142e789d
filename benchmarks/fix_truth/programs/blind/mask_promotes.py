"""A masked assignment of floats into integers."""
import torch

# fuselight: mix(f32[5], f32[5])
@torch.compile
def mix(y, x):
    y = y + 0
    m = y > x
    y[m] = x[m] * 0.5
    return y

def probe_integer_y():
    """dtype integer y truncates or raises"""
    try:
        return mix(torch.tensor([3, 0]), torch.tensor([1.0, 5.0]))
    except Exception as e:
        return type(e).__name__

def probe_half_y():
    """dtype half y raises or not"""
    try:
        return mix(torch.tensor([3.0, 0.0], dtype=torch.float16), torch.tensor([1.0, 5.0]))
    except Exception as e:
        return type(e).__name__
