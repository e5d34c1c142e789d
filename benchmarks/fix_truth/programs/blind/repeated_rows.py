"""Repeats as literals, in a list and in a tensor, for sizes that may not fit."""
import torch

# fuselight: doubled(f32[2, 3])
@torch.compile
def doubled(x):
    return torch.repeat_interleave(x, torch.tensor([1, 2]), dim=0)

# fuselight: columns(f32[2, 3])
@torch.compile
def columns(x):
    return x.repeat_interleave(torch.tensor([0, 2, 1]), -1)

# fuselight: counted(i64[3] % 3)
@torch.compile
def counted(n):
    return torch.repeat_interleave(n)

# fuselight: given(f32[3], i64[3] % 3)
@torch.compile
def given(x, n):
    return torch.repeat_interleave(x, n) * 2

def probe_doubled():
    """output"""
    return doubled(torch.arange(6.0).reshape(2, 3)), doubled(torch.ones(2, 0))

def probe_doubled_wrong():
    """size three rows fail, one row is broadcast"""
    out = []
    for rows in (3, 1):
        try:
            out.append(doubled(torch.ones(rows, 2)))
        except Exception:
            out.append("fails")
    return out

def probe_columns():
    """output"""
    return columns(torch.arange(6).reshape(2, 3)), columns(torch.arange(3.0))

def probe_counted():
    """values"""
    return counted(torch.tensor([2, 0, 1])), counted(torch.tensor([0, 0])), counted(torch.zeros(0, dtype=torch.int64))

def probe_counted_negative():
    """values negative fail"""
    try:
        return counted(torch.tensor([2, -1]))
    except Exception:
        return "fails"

def probe_given():
    """values"""
    return given(torch.arange(3.0), torch.tensor([2, 0, 1])), given(torch.ones(3), torch.tensor([0, 0, 0]))

def probe_given_one():
    """size one repeat for all"""
    return given(torch.ones(3), torch.tensor([2]))

def probe_given_grad():
    """gradients"""
    x = torch.ones(3, requires_grad=True)
    given(x, torch.tensor([2, 0, 1])).sum().backward()
    return x.grad
