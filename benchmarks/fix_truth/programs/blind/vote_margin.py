"""An integer margin decides a scale and is part of the result."""
import torch

# fuselight: margin(i32[6] % 5)
@torch.compile
def margin(votes):
    best = votes.max().item()
    return votes * best - best * best

def probe_overflow():
    """extreme int32"""
    return margin(torch.tensor([2**31 - 1, 5, 0], dtype=torch.int32))

def probe_bytes():
    """dtype uint8"""
    return margin(torch.tensor([200, 7, 3], dtype=torch.uint8))

def probe_negative():
    """extreme negative"""
    return margin(torch.tensor([-3, -9], dtype=torch.int8))
