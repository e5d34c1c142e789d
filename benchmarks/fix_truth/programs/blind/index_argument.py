"""An integer argument varies and is an index and an exponent."""
import torch

# fuselight: select(f32[8, 3], 1)
# fuselight: select(f32[8, 3], 2)
# fuselight: select(f32[8, 3], 3)
@torch.compile
def select(x, k):
    return x[k] * 10**k + len(range(k))

def probe_zero():
    """extreme zero"""
    return select(torch.ones(8, 3), 0)

def probe_negative():
    """extreme negative exponent is a float"""
    return select(torch.ones(8, 3), -1)

def probe_dtype():
    """dtype of integers with a negative exponent"""
    return select(torch.ones(8, 3, dtype=torch.int64), -2)
