"""Repeats by counts."""
import torch

# fuselight: widen(f32[2, 3])
@torch.compile
def widen(x):
    counts = torch.tensor([1, 2])
    return torch.repeat_interleave(x, counts, dim=0)

def probe_rows():
    """size other rows raise"""
    try:
        return widen(torch.ones(3, 3))
    except Exception as e:
        return type(e).__name__

def probe_wide():
    """size other columns"""
    return widen(torch.arange(10.0).reshape(2, 5))

def probe_zero_columns():
    """empty columns"""
    return widen(torch.ones(2, 0))
