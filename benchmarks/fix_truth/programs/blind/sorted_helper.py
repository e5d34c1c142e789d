"""A disabled helper of NumPy returns what it got, or another dtype, by its values."""
import numpy as np
import torch

@torch.compiler.disable
def ordered(x):
    data = x.detach().cpu().numpy()
    return torch.from_numpy(np.flip(np.sort(data, axis=-1), axis=-1).copy())

@torch.compiler.disable
def smooth(x):
    data = x.detach().numpy()
    return torch.from_numpy(np.clip(data, 0, 1.5))

# fuselight: report(f32[4])
@torch.compile
def report(x):
    return ordered(x) * 2

# fuselight: limited(f32[4])
@torch.compile
def limited(x):
    return smooth(x) + x

def probe_ordered():
    """output"""
    return report(torch.tensor([1.0, 3.0, 2.0])), report(torch.tensor([[1, 3], [2, 0]]))

def probe_ordered_dtype():
    """dtype others"""
    return [ordered(torch.tensor([0, 1, 1], dtype=d)) for d in (torch.bool, torch.float16, torch.uint8, torch.complex64)]

def probe_ordered_bfloat():
    """dtype bfloat16 fails"""
    try:
        return ordered(torch.ones(2, dtype=torch.bfloat16))
    except TypeError as e:
        return type(e).__name__

def probe_ordered_scalar():
    """rank no dimensions fail"""
    try:
        return ordered(torch.tensor(1.0))
    except Exception as e:
        return type(e).__name__

def probe_limited():
    """output"""
    return limited(torch.tensor([-1.0, 3.0])), limited(torch.tensor([-1.0, float("nan")]))

def probe_limited_int():
    """dtype integers become doubles"""
    return limited(torch.tensor([-1, 3])), smooth(torch.tensor([-1, 3], dtype=torch.int8))

def probe_limited_none():
    """empty"""
    return limited(torch.zeros(0, 3))

def probe_limited_transposed():
    """layout"""
    return smooth(torch.arange(6.0).reshape(2, 3).t()), smooth(torch.arange(6.0)[::2])

def probe_vmap():
    """other under vmap"""
    try:
        return torch.vmap(smooth)(torch.ones(2, 2))
    except Exception:
        return "fails"

def probe_meta():
    """other on the meta device"""
    try:
        return smooth(torch.ones(2, device="meta")).shape
    except Exception:
        return "fails"

def probe_subclass():
    """output type"""
    return type(smooth(torch.nn.Parameter(torch.ones(2)))).__name__
