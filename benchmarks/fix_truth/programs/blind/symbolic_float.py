"""A float of a tensor meets what Python does with floats alone."""
import math
import torch

NAMES = ["zero", "one", "two", "three"]

# fuselight: rooted(f32[3])
@torch.compile
def rooted(x):
    n = x.mean().item()
    if math.isnan(n):
        return x * 0
    return x * abs(n) ** 0.5 + n % 1 - (n // 1)

# fuselight: named(i64[3] % 3)
@torch.compile
def named(x):
    n = x.max().item()
    return x * n, NAMES[n], [1] * n, f"{n:03d}"

# fuselight: whole(f32[3])
@torch.compile
def whole(x):
    n = x.sum().item()
    return x * (2 if n.is_integer() else 3), n, str(n)

def probe_rooted():
    """output"""
    return [rooted(torch.tensor([v])) for v in (2.25, 0.0, -0.3, -2.7, 1e7)]

def probe_rooted_nan():
    """nonfinite"""
    return rooted(torch.tensor([float("nan")])), rooted(torch.tensor([float("inf")]))

def probe_named():
    """output"""
    return [named(torch.tensor([v])) for v in (0, 1, 2, 3)]

def probe_named_negative():
    """values negative"""
    return named(torch.tensor([-1]))

def probe_named_missing():
    """values beyond the names"""
    try:
        return named(torch.tensor([9]))
    except Exception:
        return "fails"

def probe_named_bool():
    """dtype bool"""
    return named(torch.tensor([True]))

def probe_whole():
    """output"""
    return [whole(torch.tensor([v])) for v in (2.0, 0.5, -0.0, 1e20)]

def probe_whole_int():
    """dtype integers"""
    return whole(torch.tensor([2]))
