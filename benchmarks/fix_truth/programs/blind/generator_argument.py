"""Iterates over an argument that can be consumed once."""
import torch

# fuselight: merge([f32[2], f32[2]])
# fuselight: merge([f32[2], f32[2], f32[2]])
@torch.compile
def merge(parts):
    total = torch.zeros(2)
    for p in parts:
        total = total + p
    return total, list(parts)

def probe_dict_values():
    """other iterables"""
    return merge({"a": torch.ones(2)}.values())

def probe_broadcast():
    """size: parts of other shapes"""
    return merge([torch.ones(2), torch.ones(3, 2)])

def probe_dtypes():
    """dtype: mixed parts"""
    return merge([torch.ones(2, dtype=torch.float64), torch.tensor([1, 2])])
