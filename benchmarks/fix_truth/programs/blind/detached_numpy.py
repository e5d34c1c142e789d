"""A helper sorts with NumPy."""
import numpy as np
import torch

@torch.compiler.disable
def order(x):
    return torch.from_numpy(np.sort(x.detach().numpy()))

# fuselight: rank(f32[6])
@torch.compile
def rank(x):
    return order(x * 2) + x

def probe_requires_grad():
    """gradients only through x"""
    x = torch.tensor([3.0, 1.0], requires_grad=True)
    y = rank(x)
    y.sum().backward()
    return x.grad, order(x).requires_grad

def probe_integer():
    """dtype integers"""
    return rank(torch.tensor([3, 1, 2]))

def probe_matrix():
    """size of two dimensions"""
    return rank(torch.tensor([[3.0, 1.0], [0.0, -1.0]]))

def probe_direct():
    """output of the helper itself"""
    return order(torch.tensor([2.0, 1.0]))
