"""The logarithm is taken only if all values are positive."""
import torch

# fuselight: safe_log(f32[4], train=True)
@torch.compile
def safe_log(x):
    if (x > 0).all():
        y = x.log()
    else:
        y = x * 0
    return y

def probe_grad_at_zero():
    """gradients at zero"""
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    safe_log(x).sum().backward()
    return x.grad

def probe_negative():
    """extreme negative"""
    x = torch.tensor([-1.0, 1.0], requires_grad=True)
    y = safe_log(x)
    y.sum().backward()
    return y, x.grad

def probe_empty():
    """empty"""
    return safe_log(torch.ones(0))
