"""One side changes its input in place."""
import torch

# fuselight: relax(f32[4])
@torch.compile
def relax(x):
    if x.max() > 1:
        x.mul_(0.5)
    return x + 1

def probe_caller():
    """state of the caller's tensor"""
    x = torch.tensor([2.0, 1.0])
    y = relax(x)
    z = torch.tensor([0.5])
    relax(z)
    return x, y, z
