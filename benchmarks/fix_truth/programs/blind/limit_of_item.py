"""A number of a tensor is compared with a decimal that single precision does not have."""
import torch

# fuselight: damp(f32[4])
@torch.compile
def damp(x):
    if x.max().item() > 0.1:
        x = x * 0.5
    return x

def probe_above():
    """output above"""
    return damp(torch.tensor([0.2, 0.0]))

def probe_tie():
    """values the nearest single number to the limit is above it"""
    return damp(torch.tensor([0.1, -1.0]))

def probe_tie_double():
    """dtype the double is equal"""
    return damp(torch.tensor([0.1, -1.0], dtype=torch.float64))

def probe_half_tie():
    """dtype half"""
    return damp(torch.tensor([0.1, -1.0], dtype=torch.float16))

def probe_bfloat():
    """dtype bfloat16 above"""
    return damp(torch.tensor([0.1, -1.0], dtype=torch.bfloat16))

def probe_integers():
    """dtype integers become floats only where they are above"""
    return damp(torch.tensor([0, -1])), damp(torch.tensor([3, 0]))

def probe_empty():
    """empty fails"""
    try:
        return damp(torch.zeros(0))
    except Exception as e:
        return type(e).__name__

def probe_grad():
    """gradients of a tie"""
    x = torch.tensor([0.1, -1.0], requires_grad=True)
    damp(x).sum().backward()
    return x.grad
