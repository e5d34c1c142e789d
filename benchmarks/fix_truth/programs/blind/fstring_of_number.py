"""A number from a tensor goes into text."""
import torch

# fuselight: report(f32[4])
@torch.compile
def report(x):
    top = x.max().item()
    y = x / top
    return y, f"{top:.3f} of {top}"

def probe_text():
    """output text"""
    return report(torch.tensor([1.0, 2.5]))

def probe_integer():
    """dtype integer text"""
    return report(torch.tensor([1, 4]))
