"""Random numbers of Python and NumPy: their ends, their types and who draws them."""
import random
import numpy as np
import torch

# fuselight: rolled(f32[3])
@torch.compile
def rolled(x):
    return x * random.randint(1, 3)

# fuselight: shifted(f32[3])
@torch.compile
def shifted(x):
    return x + np.random.uniform(5, 6)

# fuselight: jitter(f32[3])
@torch.compile
def jitter(x):
    return x * np.random.randint(2, 4)

# fuselight: bell(f32[3])
@torch.compile
def bell(x):
    return x * random.gauss(100, 0.01) + np.random.randn() * 0

def _ends(function, x):
    values = [float(function(x).reshape(-1)[0]) for _ in range(60)]
    return torch.zeros(round(min(values)), round(max(values)))

def probe_rolled():
    """output ends are drawn, too"""
    return _ends(rolled, torch.ones(1)), rolled(torch.ones(1))

def probe_rolled_int():
    """dtype integers stay"""
    return rolled(torch.ones(1, dtype=torch.int32)), rolled(torch.tensor(1, dtype=torch.int8))

def probe_shifted():
    """output ends"""
    return _ends(shifted, torch.zeros(1))

def probe_shifted_dtype():
    """dtype of the result"""
    return [shifted(torch.zeros(1, dtype=d)) for d in (torch.float16, torch.float64, torch.int32)]

def probe_shifted_scalar():
    """dtype no dimensions keep half"""
    return [shifted(torch.tensor(0, dtype=d)) for d in (torch.float16, torch.float64, torch.int32, torch.bfloat16)]

def probe_jitter():
    """output the end is left out"""
    return _ends(jitter, torch.ones(1)), jitter(torch.ones(1, dtype=torch.int64))

def probe_jitter_scalar():
    """dtype no dimensions"""
    return jitter(torch.tensor(1, dtype=torch.int8)), jitter(torch.tensor(1.0).half())

def probe_bell():
    """output mean"""
    return _ends(bell, torch.ones(1))

def probe_bell_scalar():
    """dtype no dimensions"""
    return bell(torch.tensor(1.0).half())
