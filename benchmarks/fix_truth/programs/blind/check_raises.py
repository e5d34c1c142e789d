"""Raises if a probability is out of range."""
import torch

# fuselight: entropy(f32[4].abs().clamp(0.1, 0.9))
@torch.compile
def entropy(p):
    if (p < 0).any() or (p > 1).any():
        raise ValueError("not a probability")
    return -(p * p.log()).sum()

def probe_raises():
    """other exception type"""
    try:
        return entropy(torch.tensor([0.5, 2.0]))
    except ValueError as e:
        return "ValueError", str(e)

def probe_nan():
    """nonfinite passes"""
    return entropy(torch.tensor([0.5, float("nan")]))

def probe_empty():
    """empty input"""
    return entropy(torch.ones(0))
