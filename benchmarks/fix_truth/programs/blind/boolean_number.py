"""A truth value is read from a tensor and returned."""
import torch

# fuselight: gate(f32[4])
@torch.compile
def gate(x):
    flag = (x > 0).all().item()
    return x * flag, flag

def probe_type():
    """output type"""
    y, flag = gate(torch.ones(2))
    return y, type(flag).__name__, flag is True

def probe_integer():
    """dtype int8"""
    return gate(torch.tensor([1, 2], dtype=torch.int8))[0]
