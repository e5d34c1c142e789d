"""Sides whose derivatives overflow, or are infinite at a point."""
import torch

# fuselight: grown(f32[4])
@torch.compile
def grown(x):
    if x.abs().max() < 80:
        return x.sinh()
    return x

# fuselight: length(f32[4])
@torch.compile
def length(x):
    if (x != 0).any():
        y = x / torch.linalg.vector_norm(x)
    else:
        y = x * 1
    return y

# fuselight: rooted(f32[4])
@torch.compile
def rooted(x):
    if x.min() > 0:
        y = x.pow(0.5) + x.std()
    else:
        y = x * 2 + x.mean()
    return y

# fuselight: angle(f32[4])
@torch.compile
def angle(x):
    if x.abs().max() < 1:
        x = torch.acos(x) + torch.atanh(x)
    return x

def _grads(function, *inputs):
    out = []
    for values in inputs:
        x = torch.tensor(values, requires_grad=True)
        y = function(x)
        y.sum().backward()
        out.append((y, x.grad))
    return out

def probe_grown():
    """gradients overflow"""
    return _grads(grown, [1.0, 2.0], [100.0, 1.0], [-1e30, 0.0])

def probe_length():
    """gradients at zero"""
    return _grads(length, [1.0, 2.0], [0.0, 0.0], [1e-30, 0.0])

def probe_rooted():
    """gradients at zero and of equal numbers"""
    return _grads(rooted, [1.0, 2.0], [0.0, 0.0], [-1.0, 3.0], [-1.0, -1.0])

def probe_angle():
    """gradients at one"""
    return _grads(angle, [0.5, 0.1], [1.0, -1.0], [2.0, 0.0])
