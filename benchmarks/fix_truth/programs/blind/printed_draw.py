"""What is printed draws from the generator, or changes a tensor."""
import torch

# fuselight: noisy(f32[3])
@torch.compile
def noisy(x):
    print("draw", torch.rand(1) > 2)
    return x + torch.rand(3)

# fuselight: bumped(f32[3])
@torch.compile
def bumped(x):
    y = x * 2
    print("bump", y.add_(1).shape)
    return y

def probe_noise():
    """state of the generator"""
    torch.manual_seed(3)
    y = noisy(torch.zeros(3))
    return y, torch.rand(2)

def probe_bump():
    """values are changed while they are printed"""
    return bumped(torch.zeros(2))

def probe_bump_twice():
    """values of two calls"""
    return [bumped(torch.ones(2)), bumped(torch.ones(2))]

def probe_bump_int():
    """dtype integers"""
    return bumped(torch.ones(2, dtype=torch.int64))
