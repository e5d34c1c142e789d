"""A masked assignment that divides by what it masks."""
import torch

# fuselight: safe_divide(f32[5], f32[5], train=True)
@torch.compile
def safe_divide(y, x):
    y = y * 1
    m = x != 0
    y[m] = y[m] / x[m]
    return y

def probe_zero_grad():
    """gradients where the mask is false"""
    x = torch.tensor([0.0, 2.0, 4.0], requires_grad=True)
    y = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    safe_divide(y, x).sum().backward()
    return x.grad, y.grad

def probe_all_false():
    """extreme mask without a true element"""
    return safe_divide(torch.ones(3), torch.zeros(3))

def probe_empty():
    """empty input"""
    return safe_divide(torch.ones(0), torch.ones(0))

def probe_broadcast():
    """size of the mask smaller than y"""
    return safe_divide(torch.ones(2, 3), torch.tensor([1.0, 0.0]))
