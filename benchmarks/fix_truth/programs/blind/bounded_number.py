"""A number decides a branch with a limit that rarely holds."""
import torch

# fuselight: limit(i64[3] % 4)
@torch.compile
def limit(x):
    k = x.max().item()
    if k > 10:
        return x * 0
    return x + k

def probe_large():
    """extreme: the other side of the branch"""
    return limit(torch.tensor([1, 50]))

def probe_edge():
    """extreme edge"""
    return limit(torch.tensor([10])), limit(torch.tensor([11]))
