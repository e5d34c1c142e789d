"""One number of repeats, written as a tensor, is used for every row."""
import torch

# fuselight: stretched(f32[1, 3])
@torch.compile
def stretched(x):
    return torch.repeat_interleave(x, torch.tensor([2]), dim=0)

def probe_one_row():
    """output of one row"""
    return stretched(torch.arange(3.0).reshape(1, 3))

def probe_three_rows():
    """size each of three rows twice"""
    return stretched(torch.arange(6.0).reshape(3, 2))

def probe_no_rows():
    """empty no rows"""
    return stretched(torch.zeros(0, 3))

def probe_no_columns():
    """empty no columns"""
    return stretched(torch.zeros(2, 0))

def probe_one_dimension():
    """size a vector"""
    return stretched(torch.arange(5))

def probe_gradients():
    """gradients add up"""
    x = torch.arange(4.0).reshape(2, 2).requires_grad_()
    (stretched(x) * torch.arange(8.0).reshape(4, 2)).sum().backward()
    return x.grad

def probe_strides():
    """strides of a transposed input"""
    return stretched(torch.arange(6.0).reshape(2, 3).t())

def probe_scalar():
    """size no dimension"""
    return stretched(torch.tensor(4.0))
