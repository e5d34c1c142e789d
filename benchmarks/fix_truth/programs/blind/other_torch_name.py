"""torch has another name here, and `torch` is a number."""
from __future__ import annotations

import torch as th
import torch.nn.functional as F

torch = 3

# fuselight: first(f32[4])
@th.compile
def first(x):
    n = x.sum().item()
    return x * n + torch

# fuselight: kept(f32[4])
@th.compile
def kept(x):
    if x.sum() > 0:
        y = F.relu(x) * torch
    else:
        y = F.relu(x) + 1
    print("kept", y.shape[0])
    return y

def probe_first():
    """output"""
    return first(th.tensor([1.0, 2.0])), first(th.tensor([1, 2]))

def probe_kept():
    """output"""
    return kept(th.tensor([1.0, 2.0])), kept(th.tensor([-1.0, -2.0])), kept(th.zeros(2))

def probe_kept_int():
    """dtype integers"""
    return kept(th.tensor([1, 2])), kept(th.tensor([-1, -2]))

def probe_kept_grad():
    """gradients at zero"""
    x = th.zeros(2, requires_grad=True)
    kept(x).sum().backward()
    return x.grad
