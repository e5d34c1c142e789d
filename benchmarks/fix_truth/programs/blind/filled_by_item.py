"""Numbers of tensors make new tensors, whose dtype they decide."""
import torch

# fuselight: made(f32[3])
@torch.compile
def made(x):
    n = x.max().item()
    return torch.full((2,), n), torch.tensor([n, 1]), x.new_full((1,), n), torch.as_tensor(n)

def probe_float():
    """output floats"""
    return made(torch.tensor([0.1, -1.0]))

def probe_int():
    """dtype integers"""
    return made(torch.tensor([3, 4]))

def probe_bool():
    """dtype bools"""
    return made(torch.tensor([True, False]))

def probe_double():
    """dtype double"""
    return made(torch.tensor([0.1], dtype=torch.float64))

def probe_half():
    """dtype half"""
    return made(torch.tensor([0.1], dtype=torch.float16))

def probe_large():
    """extreme integers"""
    return made(torch.tensor([2**53 + 1]))

def probe_nan():
    """nonfinite"""
    return made(torch.tensor([float("nan")])), made(torch.tensor([float("inf")]))
