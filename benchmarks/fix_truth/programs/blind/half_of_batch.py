"""A random permutation, a random size and a choice of NumPy and Python mix a batch."""
import random
import numpy as np
import torch

# fuselight: mixed(f32[4, 2])
@torch.compile
def mixed(x):
    share = np.random.beta(1.0, 1.0)
    order = torch.randperm(x.shape[0])
    return x * share + x[order] * (1 - share)

# fuselight: scaled(f32[2, 3, 4])
@torch.compile
def scaled(x):
    return x * np.random.normal(1.0, 0.0) + random.random() * 0

# fuselight: flipped(f32[2, 3])
@torch.compile
def flipped(x):
    if random.random() < 0.5:
        x = x.flip(-1)
    return x

# fuselight: noisy(f32[3], 0.1)
@torch.compile
def noisy(x, level):
    if level > 0 and np.random.rand() < 2:
        x = x + level * np.random.standard_normal()
    return x

def probe_mixed():
    """output"""
    return mixed(torch.ones(3, 2)), mixed(torch.ones(1, 2).half())

def probe_scaled():
    """output a fixed mean"""
    return scaled(torch.ones(1, 1, 2)), scaled(torch.ones(1, 1, 2).double())

def probe_scaled_scalar():
    """dtype no dimensions"""
    return scaled(torch.tensor(1.0)), scaled(torch.tensor(1.0).half()), scaled(torch.tensor(1, dtype=torch.int16))

def probe_scaled_inf():
    """nonfinite"""
    return scaled(torch.tensor([[[float("inf")]]]))

def probe_flipped():
    """output both happen"""
    x = torch.tensor([[1.0, 2.0]])
    seen = {float(flipped(x)[0, 0]) for _ in range(60)}
    return torch.zeros(len(seen))

def probe_flipped_memory():
    """output the other side is the argument"""
    x = torch.zeros(1, 2)
    seen = {flipped(x) is x for _ in range(60)}
    return torch.zeros(len(seen))

def probe_noisy():
    """option no noise"""
    return noisy(torch.ones(2), 0), noisy(torch.ones(2, dtype=torch.int64), 0)

def probe_noisy_dtype():
    """dtype others"""
    return noisy(torch.tensor(1.0).half(), 0.5), noisy(torch.ones(2).half(), 0.5), noisy(torch.ones(2).int(), 1)
