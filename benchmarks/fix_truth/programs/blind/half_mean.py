"""The mean of what a mask selects, in half precision."""
import torch

# fuselight: masked_mean(f32[16])
@torch.compile
def masked_mean(x):
    return x[x > 0].mean()

def probe_half_overflow():
    """dtype float16 whose sum is out of range"""
    return masked_mean(torch.full((4096,), 100.0, dtype=torch.float16))

def probe_none():
    """empty selection"""
    return masked_mean(-torch.ones(3))

def probe_inf():
    """nonfinite values that the mask leaves out"""
    return masked_mean(torch.tensor([float("-inf"), 2.0, 4.0]))

def probe_grad():
    """gradients"""
    x = torch.tensor([1.0, -1.0, 3.0], requires_grad=True)
    masked_mean(x).backward()
    return x.grad
