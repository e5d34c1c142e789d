"""int() of a float tensor truncates."""
import torch

# fuselight: crop(f32[8], f32[1].abs())
@torch.compile
def crop(x, share):
    n = int(share * 4)
    return x[n:], n

def probe_truncate():
    """extreme negative truncation"""
    return crop(torch.arange(6.0), torch.tensor([-0.4])), crop(torch.arange(6.0), torch.tensor([0.99]))

def probe_beyond():
    """size beyond the end"""
    return crop(torch.arange(3.0), torch.tensor([9.0]))

def probe_nan():
    """nonfinite raises"""
    try:
        return crop(torch.arange(3.0), torch.tensor([float("nan")]))
    except Exception as e:
        return type(e).__name__
