"""The product of what is selected in a matrix."""
import torch

# fuselight: volume(f32[3, 4])
@torch.compile
def volume(x):
    return x[x > 0].prod()

def probe_none():
    """empty selection is one"""
    return volume(-torch.ones(2, 2))

def probe_grad_zero():
    """gradients"""
    x = torch.tensor([[2.0, -1.0], [3.0, 0.0]], requires_grad=True)
    volume(x).backward()
    return x.grad

def probe_dtype():
    """dtype int"""
    return volume(torch.tensor([[2, 3], [-1, 0]]))
