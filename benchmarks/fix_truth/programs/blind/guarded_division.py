"""A condition whose second part divides."""
import torch

# fuselight: rescale(f32[4], i64[1] % 3 + 1)
@torch.compile
def rescale(x, d):
    n = d.item()
    if n != 0 and 100 // n > 20:
        x = x * n
    return x

def probe_zero():
    """extreme zero is not divided by"""
    return rescale(torch.ones(2), torch.tensor([0]))

def probe_negative():
    """extreme negative floor division"""
    return rescale(torch.ones(2), torch.tensor([-7]))

def probe_float_number():
    """dtype of a float number"""
    return rescale(torch.ones(2), torch.tensor([0.5]))

def probe_bool():
    """dtype of a bool number"""
    return rescale(torch.ones(2), torch.tensor([True]))
