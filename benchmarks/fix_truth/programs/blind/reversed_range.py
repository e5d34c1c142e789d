"""A range of random numbers whose limits come as arguments, in any order."""
import random

import torch

# fuselight: jitter(f32[4], 0.5, 2.0)
@torch.compile
def jitter(x, low, high):
    return x * random.uniform(low, high)

def _within(x, low, high):
    out = jitter(x, low, high)
    first, last = sorted((low, high))
    if not bool(((out >= first) & (out <= last)).all()):
        raise ArithmeticError("outside of the range")
    return {"shape": out.shape, "dtype": out.dtype}

def probe_ordered():
    """output in order"""
    return _within(torch.ones(3), 1.0, 3.0)

def probe_reversed():
    """other limits the other way round, which Python accepts"""
    return _within(torch.ones(3), 3.0, 1.0)

def probe_equal_limits():
    """other limits that are equal give that number"""
    return jitter(torch.ones(2), 2.0, 2.0)

def probe_integers():
    """dtype integer limits"""
    return _within(torch.ones(3), 1, 3)

def probe_large():
    """extreme limits beyond float32"""
    out = jitter(torch.ones(2, dtype=torch.float64), 1e200, 1e201)
    if not bool(out.isfinite().all()):
        raise ArithmeticError("not finite")
    return out.dtype

def probe_double_resolution():
    """dtype float64 keeps the digits of Python's numbers"""
    random.seed(3)
    torch.manual_seed(3)
    drawn = [jitter(torch.ones(1, dtype=torch.float64), 0.0, 1.0).item() for _ in range(8)]
    if all(torch.tensor(one, dtype=torch.float32).item() == one for one in drawn):
        raise ArithmeticError("only single precision")
    return len(drawn)

def probe_scalar_half():
    """dtype float16 without dimensions"""
    return jitter(torch.tensor(1.0, dtype=torch.float16), 0.5, 0.75).dtype

def probe_integer_scalar():
    """dtype int64 without dimensions"""
    return jitter(torch.tensor(4), 0.5, 0.75).dtype
