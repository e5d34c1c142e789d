"""The truth value of a tensor that may have many elements."""
import torch

# fuselight: once(f32[1])
@torch.compile
def once(x):
    if x > 0:
        return x * 2
    return x - 1

def probe_many():
    """size two raises"""
    try:
        return once(torch.tensor([1.0, -1.0]))
    except RuntimeError:
        return "RuntimeError"

def probe_empty():
    """empty"""
    try:
        return once(torch.ones(0))
    except RuntimeError:
        return "RuntimeError"

def probe_matrix():
    """size of a matrix of one element"""
    return once(torch.tensor([[2.0]]))
