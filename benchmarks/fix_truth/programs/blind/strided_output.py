"""The strides of the input decide the strides of the output."""
import torch

# fuselight: keep(f32[3, 4])
# fuselight: keep(f32[4, 3].t())
@torch.compile
def keep(x):
    return x * 2, x.is_contiguous()

def probe_strides():
    """output strides"""
    y, c = keep(torch.ones(4, 3).t())
    return y.stride(), c

def probe_in_place():
    """state of a view"""
    base = torch.ones(4, 3)
    keep(base.t())[0].add_(1)
    return base

def probe_as_strided():
    """output of an expanded tensor"""
    y, c = keep(torch.ones(3, 1).expand(3, 4))
    return y.stride(), c
