"""A dict's keys come in another order; the order is part of the result."""
import torch

# fuselight: stackup({"a": f32[2], "b": f32[2]})
# fuselight: stackup({"b": f32[2], "a": f32[2]})
@torch.compile
def stackup(parts):
    return torch.cat([v * i for i, v in enumerate(parts.values())]), list(parts)

def probe_order():
    """output order"""
    one = torch.ones(2)
    return stackup({"z": one, "a": one * 2}), stackup({"a": one * 2, "z": one})

def probe_mixed_keys():
    """other keys that cannot be compared"""
    return stackup({1: torch.ones(1), "a": torch.ones(1)})
