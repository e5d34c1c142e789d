"""Runs backward inside."""
import torch

# fuselight: slope(f32[3])
@torch.compile
def slope(x):
    x = x.detach().requires_grad_()
    (x**3).sum().backward()
    return x.grad

def probe_values():
    """other values"""
    return slope(torch.tensor([1.0, 2.0]))

def probe_no_grad():
    """mode no_grad raises"""
    with torch.no_grad():
        try:
            return slope(torch.ones(2))
        except RuntimeError:
            return "RuntimeError"

def probe_integer():
    """dtype integer raises"""
    try:
        return slope(torch.tensor([1, 2]))
    except RuntimeError:
        return "RuntimeError"
