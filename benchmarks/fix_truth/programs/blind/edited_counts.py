"""Repeats are written as integers, and edited before they are used."""
import torch

# fuselight: stretched(f32[3])
@torch.compile
def stretched(x, extra=0):
    counts = torch.tensor([1, 2, 3])
    counts[0] += extra
    return torch.repeat_interleave(x, counts)

# fuselight: rows(f32[3, 2])
@torch.compile
def rows(x):
    return x.repeat_interleave(torch.tensor([2, 0, 1]), dim=0)

def probe_usual():
    """output"""
    return stretched(torch.tensor([1.0, 2.0, 3.0]))

def probe_extra():
    """other the first count is larger"""
    return stretched(torch.tensor([1.0, 2.0, 3.0]), 2)

def probe_fewer():
    """other the first count is none"""
    return stretched(torch.tensor([1.0, 2.0, 3.0]), -1)

def probe_negative():
    """other a negative count raises"""
    try:
        return stretched(torch.ones(3), -5)
    except RuntimeError:
        return "RuntimeError"

def probe_matrix():
    """size a matrix is flattened"""
    return stretched(torch.tensor([[1.0, 2.0, 3.0]]))

def probe_other_size():
    """size another size raises"""
    try:
        return stretched(torch.ones(4))
    except RuntimeError:
        return "RuntimeError"

def probe_rows():
    """output rows"""
    return rows(torch.arange(6.0).reshape(3, 2))

def probe_one_row():
    """size one row"""
    try:
        return rows(torch.ones(1, 2))
    except RuntimeError:
        return "RuntimeError"

def probe_rows_gradients():
    """gradients of rows"""
    x = torch.arange(6.0).reshape(3, 2).requires_grad_()
    (rows(x) * torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])).sum().backward()
    return x.grad

def probe_rows_integers():
    """dtype integers"""
    return rows(torch.arange(3))
