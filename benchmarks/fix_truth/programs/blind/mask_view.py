"""A masked assignment to a view of the argument."""
import torch

# fuselight: blank(f32[3, 4])
@torch.compile
def blank(x):
    row = x[0]
    row[row > 0] = -1.0
    return x.sum()

def probe_caller():
    """state of the caller's tensor"""
    x = torch.tensor([[1.0, -2.0], [3.0, 4.0]])
    return blank(x), x

def probe_integer():
    """dtype integer"""
    x = torch.tensor([[1, -2], [3, 4]])
    return blank(x), x

def probe_leaf():
    """gradients: a leaf raises"""
    try:
        return blank(torch.ones(2, 2, requires_grad=True))
    except RuntimeError as e:
        return "RuntimeError"
