"""Python's normal distribution takes any spread; the sign does not matter."""
import random

import torch

# fuselight: jitter(f32[4], spread=0.1)
@torch.compile
def jitter(x, spread):
    return x + random.gauss(1.0, spread)

def _kept(x, spread):
    out = jitter(x, spread)
    return [out.dtype, out.shape, bool(torch.isfinite(out).all())]

def probe_usual():
    """output kind of the result"""
    return _kept(torch.ones(3), 0.5)

def probe_none():
    """output without spread, nothing is random"""
    return jitter(torch.tensor([1.0, -1.0]), 0.0)

def probe_negative():
    """other a negative spread"""
    return _kept(torch.ones(3), -0.5)

def probe_integers():
    """dtype integers become floats"""
    return _kept(torch.arange(3), 0.5)

def probe_double():
    """dtype doubles"""
    return _kept(torch.ones(2, dtype=torch.float64), 0.5)

def probe_whole_spread():
    """other the spread is an integer"""
    return _kept(torch.ones(2), 2)

def probe_shared():
    """other one number for all elements"""
    out = jitter(torch.zeros(5), 3.0)
    return bool((out == out[0]).all())

def probe_generator():
    """other torch's own generator is not used"""
    jitter(torch.zeros(1), 1.0)
    return torch.rand(2)
