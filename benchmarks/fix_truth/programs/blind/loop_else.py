"""A loop with else and break on a tensor."""
import torch

# fuselight: search(f32[4])
@torch.compile
def search(x):
    for i in range(4):
        if x[i] > 1:
            x = x * (i + 1)
            break
    else:
        x = x - 100
    return x

def probe_break():
    """extreme first"""
    return search(torch.tensor([2.0, 0.0, 0.0, 3.0])), search(torch.tensor([0.0, 0.0, 2.0, 0.0]))

def probe_else():
    """extreme none"""
    return search(torch.zeros(4))

def probe_nan():
    """nonfinite"""
    return search(torch.tensor([float("nan"), 0.0, 5.0, 0.0]))
