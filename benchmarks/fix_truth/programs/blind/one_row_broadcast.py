"""Selected rows are added to a tensor; one row is broadcast."""
import torch

# fuselight: merge(f32[5, 2], f32[3, 2])
@torch.compile
def merge(x, base):
    top = x[torch.unique(torch.tensor([4, 0, 2, 4]))]
    return top + base

# fuselight: join(f32[3], f32[1])
@torch.compile
def join(x, base):
    return x[x > -9] + base

def probe_merge():
    """output"""
    return merge(torch.arange(10.0).reshape(5, 2), torch.ones(3, 2)), merge(torch.ones(5, 2), torch.ones(1, 2))

def probe_one():
    """row one selected element is broadcast"""
    return join(torch.tensor([1.0, -10.0, -10.0]), torch.ones(4))

def probe_none():
    """values none is selected"""
    return join(torch.tensor([-10.0]), torch.ones(1))

def probe_same():
    """size as many as selected"""
    return join(torch.tensor([1.0, 2.0, -10.0]), torch.tensor([1.0, 2.0]))

def probe_wrong():
    """size does not fit"""
    try:
        return join(torch.tensor([1.0, 2.0, 3.0]), torch.ones(2))
    except Exception:
        return "fails"

def probe_empty_base():
    """row one selected element is broadcast to none"""
    return join(torch.tensor([1.0]), torch.ones(0))
