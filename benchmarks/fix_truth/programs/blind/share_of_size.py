"""A share of a size is rounded down, which depends on the last bit of a product."""
import torch

# fuselight: head(f32[10])
# fuselight: head(f32[50])
# fuselight: head(f32[70])
@torch.compile
def head(x):
    count = int(x.shape[0] * 0.29)
    half = round(x.shape[0] / 4)
    return x[:count].sum() + half + 1 / (x.shape[0] - 3)

def _of(size):
    return head(torch.ones(size, dtype=torch.float64))

def probe_sizes():
    """size several"""
    return [_of(one) for one in (5, 20, 64, 65)]

def probe_last_bit():
    """size a product just below an integer"""
    return [_of(100), _of(200)]

def probe_half_even():
    """size rounding to the even number"""
    return [_of(6), _of(14), _of(10), _of(18)]

def probe_small():
    """size one and two"""
    return [_of(1), _of(2)]

def probe_zero_division():
    """other three divides by zero"""
    try:
        return _of(3)
    except ZeroDivisionError:
        return "ZeroDivisionError"

def probe_empty():
    """empty"""
    return _of(0)

def probe_scalar():
    """size no dimensions raise"""
    try:
        return head(torch.tensor(1.0))
    except IndexError:
        return "IndexError"
