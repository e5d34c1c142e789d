"""Nested branches on two tensors."""
import torch

# fuselight: route(f32[4], f32[4])
@torch.compile
def route(x, y):
    if x.sum() > 0:
        if y.sum() > 0:
            z = x + y
        else:
            z = x - y
    else:
        z = x * y
    return z

def probe_broadcast():
    """size of y differs"""
    return route(torch.ones(3), torch.ones(1)), route(-torch.ones(1), torch.ones(3)), route(torch.ones(2, 1), -torch.ones(2))

def probe_promotion():
    """dtype mixed"""
    return route(torch.tensor([1, 2]), torch.tensor([0.5, 0.5])), route(torch.tensor([-1, -2]), torch.tensor([True, False]))
