"""Warnings are recorded by the code itself, and decide."""
import warnings
import torch

# fuselight: careful(f32[3])
@torch.compile
def careful(x):
    if x.shape[0] > 2:
        warnings.warn(f"long {x.shape[0]}", stacklevel=2)
    return x * 2

# fuselight: recorded(f32[3])
@torch.compile
def recorded(x):
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        warnings.warn("slow")
        y = x + 1
    return y * len(seen)

def probe_careful():
    """output"""
    return careful(torch.ones(3)), careful(torch.ones(2))

def probe_error():
    """output warnings are errors"""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            return careful(torch.ones(3))
        except Exception:
            return "fails"

def probe_recorded():
    """values depend on the warnings"""
    return recorded(torch.ones(3)), recorded(torch.zeros(1))
