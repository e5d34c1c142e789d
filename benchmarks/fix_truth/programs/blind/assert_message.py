"""An assert computes its message."""
import torch

# fuselight: checked(f32[4])
@torch.compile
def checked(x):
    assert x.isfinite().all(), f"bad values: {int((~x.isfinite()).sum())}"
    return x + 1

def probe_message():
    """other exception message"""
    try:
        return checked(torch.tensor([float("nan"), 1.0]))
    except AssertionError as e:
        return str(e)

def probe_integer():
    """dtype integer"""
    return checked(torch.tensor([1, 2]))
