"""A bias is given in some calls."""
import torch

# fuselight: affine(f32[3], None)
# fuselight: affine(f32[3], f32[3])
@torch.compile
def affine(x, bias=None):
    if bias is not None and bias.abs().sum() > 0:
        x = x + bias
    return x

def probe_none():
    """other None"""
    x = torch.ones(2)
    y = affine(x)
    return y, y is x

def probe_zero_bias():
    """output is the input for a bias of zeros"""
    x = torch.ones(2)
    y = affine(x, torch.zeros(2))
    return y is x

def probe_wider():
    """size: a bias that broadcasts x"""
    return affine(torch.ones(2), torch.ones(3, 2)), affine(torch.ones(2), torch.zeros(3, 2))

def probe_dtype():
    """dtype of a bias"""
    return affine(torch.ones(2), torch.ones(2, dtype=torch.float64)), affine(torch.ones(2), torch.zeros(2, dtype=torch.float64))
