"""The name sum is the user's function."""
import torch

def sum(xs):
    print("adding", len(xs))
    return xs[0]

# fuselight: first([f32[2], f32[2]])
# fuselight: first([f32[2], f32[2], f32[2]])
@torch.compile
def first(xs):
    return sum(xs) * 2

def probe_first():
    """size of the list"""
    return first([torch.ones(2), torch.zeros(2), torch.zeros(2), torch.zeros(2)])
