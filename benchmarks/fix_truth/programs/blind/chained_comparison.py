"""A chained comparison calls a function once."""
import torch

CALLS = []

def middle(x):
    CALLS.append(1)
    return x.mean()

# fuselight: band(f32[4])
@torch.compile
def band(x):
    if 0 < middle(x) < 1:
        x = x * 2
    return x

def probe_calls():
    """state counts the calls"""
    CALLS.clear()
    y = band(torch.full((2,), 0.5))
    z = band(torch.full((2,), 5.0))
    return y, z, len(CALLS)

def probe_nan():
    """nonfinite"""
    return band(torch.tensor([float("nan")]))
