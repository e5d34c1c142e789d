"""Two names are swapped on one side."""
import torch

# fuselight: ordered(f32[3], f32[3])
@torch.compile
def ordered(a, b):
    if a.sum() > b.sum():
        a, b = b, a
    return a, b

def probe_identity():
    """output objects"""
    x, y = torch.ones(2), torch.zeros(2)
    a, b = ordered(x, y)
    return a is y, b is x, ordered(y, x)[0] is y

def probe_shapes():
    """size of the two differs"""
    a, b = ordered(torch.ones(3), torch.zeros(2))
    return a.shape, b.shape

def probe_dtypes():
    """dtype of the two differs"""
    a, b = ordered(torch.tensor([5]), torch.tensor([0.5]))
    return a, b
