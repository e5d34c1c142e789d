"""The sides have one shape only for a batch of one."""
import torch

# fuselight: pool(f32[1, 4])
@torch.compile
def pool(x):
    if x.max() > 0:
        out = x.sum(0, keepdim=True)
    else:
        out = x * 0.5
    return out

def probe_batch():
    """size of the batch"""
    return pool(torch.ones(3, 4)), pool(-torch.ones(3, 4))

def probe_empty():
    """empty batch raises the same"""
    try:
        return pool(torch.ones(0, 4))
    except Exception as e:
        return type(e).__name__
