"""A helper asks for the type of a number that varies."""
import torch

def factor_of(rate):
    return rate * 10 if isinstance(rate, float) else rate

# fuselight: step(f32[3], 0.5)
# fuselight: step(f32[3], 0.25)
# fuselight: step(f32[3], 0.125)
@torch.compile
def step(x, rate):
    return x * factor_of(rate)

# fuselight: other(f32[3], 0.5)
# fuselight: other(f32[3], 0.25)
# fuselight: other(f32[3], 0.125)
@torch.compile
def other(x, rate):
    return torch.where(x > 0, rate, x) + torch.full_like(x, rate)

# fuselight: third(f32[2], 0.5)
# fuselight: third(f32[2], 0.25)
# fuselight: third(f32[2], 0.125)
@torch.compile
def third(x, rate):
    x = x.add(x, alpha=1)
    return x.lerp(x * 2, rate) + torch.tensor([rate, 1.0])

def probe_step():
    """output"""
    return step(torch.ones(2), 0.3), step(torch.ones(2), 3), step(torch.ones(2), torch.tensor(0.3))

def probe_other():
    """output"""
    return [other(torch.tensor([1.0, -1.0]), r) for r in (0.1, 0.0, 7.5)]

def probe_other_dtype():
    """dtype others"""
    return [other(torch.tensor([1, -1], dtype=d), 1.5) for d in (torch.int64, torch.float16, torch.float64)]

def probe_other_scalar():
    """rank none"""
    return other(torch.tensor(1.0), 0.1), other(torch.tensor(1.0).half(), 0.1)

def probe_third():
    """output"""
    return third(torch.ones(2), 0.1), third(torch.ones(2), 0.0)

def probe_third_double():
    """dtype double"""
    return third(torch.ones(2).double(), 0.1)

def probe_third_half():
    """half precision"""
    return third(torch.tensor([0.1, 3.0]).half(), 0.3)
