"""Two names are assigned on each side."""
import torch

# fuselight: split(f32[4])
@torch.compile
def split(x):
    if x[0] > x[1]:
        a, b = x, x * 2
    else:
        a, b = x * 2, x
    return a - b, a

def probe_alias():
    """output is the input"""
    x = torch.tensor([2.0, 1.0])
    d, a = split(x)
    a.zero_()
    return x, d

def probe_dtype():
    """dtype float16"""
    return split(torch.tensor([60000.0, 1.0], dtype=torch.float16))
