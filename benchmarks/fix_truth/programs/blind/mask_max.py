"""The maximum of what is selected raises for an empty selection."""
import torch

# fuselight: top(f32[6])
@torch.compile
def top(x):
    return x[x > 0].max()

def probe_none():
    """empty selection raises"""
    try:
        return top(-torch.ones(3))
    except Exception as e:
        return type(e).__name__

def probe_inf():
    """nonfinite"""
    return top(torch.tensor([float("inf"), -1.0]))
