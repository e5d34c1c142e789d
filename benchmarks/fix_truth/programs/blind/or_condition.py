"""`or` returns the tensor itself."""
import torch

# fuselight: fallback(f32[1])
@torch.compile
def fallback(x):
    y = x or torch.ones(1)
    return y * 2

def probe_zero():
    """extreme zero"""
    return fallback(torch.zeros(1)), fallback(torch.tensor([3]))

def probe_many():
    """size two raises"""
    try:
        return fallback(torch.ones(2))
    except RuntimeError as e:
        return "RuntimeError"
