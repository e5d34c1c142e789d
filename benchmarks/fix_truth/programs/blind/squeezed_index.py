"""Indices are squeezed: one index gives no dimension."""
import torch

# fuselight: picked(f32[6])
@torch.compile
def picked(x):
    index = (x > 0).nonzero().squeeze()
    return x[index] * 2

def probe_many():
    """output of several"""
    return picked(torch.tensor([1.0, -1.0, 2.0]))

def probe_one():
    """values a single one"""
    return picked(torch.tensor([1.0, -1.0, -2.0]))

def probe_none():
    """values none"""
    return picked(torch.tensor([-1.0, -2.0]))

def probe_matrix():
    """rank a matrix"""
    return picked(torch.tensor([[1.0, -1.0], [0.0, 0.0]]).abs())

def probe_empty():
    """empty"""
    return picked(torch.zeros(0))

def probe_grad():
    """gradients of one"""
    x = torch.tensor([1.0, -1.0], requires_grad=True)
    picked(x).sum().backward()
    return x.grad
