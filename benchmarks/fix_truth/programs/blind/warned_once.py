"""Warns for large values and returns."""
import warnings
import torch

# fuselight: soft(f32[4])
@torch.compile
def soft(x):
    if x.shape[0] > 3:
        warnings.warn("large input", stacklevel=2)
    return x.softmax(0)

def probe_small():
    """size without the warning"""
    return soft(torch.ones(2))

def probe_as_error():
    """output: warnings are errors"""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return soft(torch.ones(5))
        except UserWarning as e:
            return str(e)
