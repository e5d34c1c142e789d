"""Gradient clipping by hand: a norm becomes a number, which scales in place; a history keeps it."""
import torch
from torch import nn

# fuselight: clip([f32[3], f32[2, 2]])
@torch.compile
def clip(grads, limit=1.0):
    total = torch.stack([g.norm() for g in grads]).norm().item()
    if total > limit:
        for g in grads:
            g.mul_(limit / (total + 1e-6))
    return total

# fuselight: scaled(f32[3])
@torch.compile
def scaled(x):
    peak = x.abs().max().item()
    peak = peak if peak > 0 else 1.0
    return x / peak

# fuselight: ratio(f32[3])
@torch.compile
def ratio(x):
    low, high = x.min().item(), x.max().item()
    return (x - low) / (high - low + 1e-8)

def probe_clip():
    """state of the gradients"""
    grads = [torch.full((2,), 3.0), torch.ones(1)]
    return clip(grads), grads, type(clip(grads, 0.5)).__name__, grads

def probe_clip_small():
    """values below the limit"""
    grads = [torch.full((2,), 0.1)]
    return clip(grads), grads

def probe_scaled():
    """values zeros"""
    return [scaled(torch.tensor(v)) for v in ([0.0, 0.0], [2.0, -4.0])]

def probe_scaled_nan():
    """nonfinite"""
    return scaled(torch.tensor([float("nan"), 1.0])), scaled(torch.tensor([float("inf"), 1.0]))

def probe_scaled_int():
    """dtype integers"""
    return scaled(torch.tensor([2, -4])), scaled(torch.tensor([0, 0]))

def probe_ratio():
    """values equal numbers"""
    return ratio(torch.tensor([1.0, 3.0])), ratio(torch.tensor([2.0, 2.0]))

def probe_ratio_half():
    """half precision, where a small number is zero"""
    return ratio(torch.tensor([2.0, 2.0]).half()), ratio(torch.tensor([1.0, 3.0]).half())

def probe_ratio_scalar():
    """rank none in half precision"""
    return ratio(torch.tensor(2.0).half()), ratio(torch.tensor(2.0))

def probe_ratio_grad():
    """gradients"""
    x = torch.tensor([1.0, 3.0], requires_grad=True)
    ratio(x).pow(2).sum().backward()
    return x.grad
