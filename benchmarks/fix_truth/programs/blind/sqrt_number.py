"""The square root of a number from a tensor."""
import math
import torch

# fuselight: unit(f32[4])
@torch.compile
def unit(x):
    n = math.sqrt((x * x).sum().item())
    return x / max(n, 1e-12)

def probe_zero():
    """extreme zero vector"""
    return unit(torch.zeros(3))

def probe_grad():
    """gradients do not go through the norm"""
    x = torch.tensor([3.0, 4.0], requires_grad=True)
    unit(x).sum().backward()
    return x.grad

def probe_nan():
    """nonfinite"""
    return unit(torch.tensor([float("nan"), 1.0])), unit(torch.tensor([float("inf"), 1.0]))

def probe_integer():
    """dtype integer"""
    return unit(torch.tensor([3, 4]))
