"""Sizes go through math, lists and dicts of Python."""
import math
import torch

TABLE = {n: n * 10 for n in range(40)}
LAYERS = list(range(40))

# fuselight: looked(f32[4])
# fuselight: looked(f32[5])
# fuselight: looked(f32[6])
# fuselight: looked(f32[7])
@torch.compile
def looked(x):
    n = x.shape[0]
    return x * TABLE[n] + LAYERS[n] + n.bit_length()

# fuselight: scaled(f32[4])
# fuselight: scaled(f32[5])
# fuselight: scaled(f32[6])
# fuselight: scaled(f32[7])
@torch.compile
def scaled(x):
    n = x.shape[0]
    x = x / math.sqrt(n) + math.log2(n) - round(n * 0.3) + math.ceil(n / 3) + n**0.5
    return x * (1 if n % 2 else -1) + int(n * 0.7) + (n // -3)

# fuselight: windows(f32[4], 1)
# fuselight: windows(f32[5], 2)
# fuselight: windows(f32[6], 3)
# fuselight: windows(f32[7], 4)
@torch.compile
def windows(x, k):
    return x[:k].sum() + x[-k:] .sum() / k, x.shape[0] % k, k / 2, k

def probe_looked():
    """size several"""
    return [looked(torch.ones(n)) for n in (1, 2, 9, 8, 16)]

def probe_looked_none():
    """size a missing one"""
    try:
        return looked(torch.ones(50))
    except Exception as e:
        return type(e).__name__

def probe_scaled():
    """size several"""
    return [scaled(torch.zeros(n)) for n in (1, 2, 3, 5, 10, 15, 25)]

def probe_scaled_double():
    """dtype double"""
    return [scaled(torch.zeros(n, dtype=torch.float64)) for n in (3, 5, 7, 11)]

def probe_windows():
    """option several"""
    return [windows(torch.arange(7.0), k) for k in (1, 2, 7, 9, -2)]

def probe_windows_types():
    """output types"""
    return [[type(v).__name__ for v in windows(torch.arange(7.0), k)] for k in (3, True)]

def probe_windows_zero():
    """option zero"""
    try:
        return windows(torch.arange(3.0), 0)
    except Exception as e:
        return type(e).__name__
