"""A number from a tensor is a size."""
import torch

# fuselight: pad(i64[3] % 4 + 1)
@torch.compile
def pad(lengths):
    width = lengths.max().item()
    return torch.arange(width).expand(len(lengths), width) < lengths.unsqueeze(1)

def probe_zero():
    """extreme zero width"""
    return pad(torch.tensor([0, 0]))

def probe_one():
    """size one"""
    return pad(torch.tensor([1]))

def probe_int32():
    """dtype int32"""
    return pad(torch.tensor([2, 5], dtype=torch.int32))

def probe_negative():
    """extreme negative raises"""
    try:
        return pad(torch.tensor([-2]))
    except Exception as e:
        return type(e).__name__
