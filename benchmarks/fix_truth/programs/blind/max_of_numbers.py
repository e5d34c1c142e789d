"""Python's max and min of numbers from tensors."""
import torch

# fuselight: window(f32[4], f32[4])
@torch.compile
def window(a, b):
    lo = min(a.min().item(), b.min().item())
    hi = max(a.max().item(), b.max().item())
    return (a - lo) / (hi - lo + 1e-6)

def probe_nan():
    """nonfinite: Python's min keeps the first"""
    n = torch.tensor([float("nan"), 1.0])
    return window(n, torch.tensor([0.0, 2.0])), window(torch.tensor([0.0, 2.0]), n)

def probe_half():
    """dtype half"""
    return window(torch.tensor([1.0, 2.0], dtype=torch.float16), torch.tensor([0.1, 3.0]))

def probe_mixed():
    """dtype mixed integers"""
    return window(torch.tensor([1, 7]), torch.tensor([2**53 + 1, 3]))
