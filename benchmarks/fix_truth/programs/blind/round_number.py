"""A number is rounded and formatted."""
import torch

# fuselight: quantize(f32[4])
@torch.compile
def quantize(x):
    step = round(x.abs().max().item() / 127, 4)
    return torch.round(x / step) * step if step else x

def probe_zero():
    """extreme zero"""
    return quantize(torch.zeros(3))

def probe_small():
    """extreme small"""
    return quantize(torch.tensor([1e-6, -1e-6]))

def probe_integer():
    """dtype integer"""
    return quantize(torch.tensor([127, -254]))
