"""A number is read before the tensor that it comes from is changed in place."""
import torch

# fuselight: shift(f32[5])
@torch.compile
def shift(x):
    first = x[0].item()
    x.add_(1)
    return x * first

def probe_usual():
    """output of the first element as it was"""
    return shift(torch.tensor([2.0, 3.0]))

def probe_zero():
    """values zero"""
    return shift(torch.zeros(3))

def probe_argument():
    """state the argument is changed"""
    x = torch.arange(3.0)
    y = shift(x)
    return x, y

def probe_rank():
    """rank a matrix fails"""
    try:
        return shift(torch.ones(2, 2))
    except Exception as e:
        return type(e).__name__

def probe_column():
    """rank a column works"""
    return shift(torch.tensor([[3.0]]))

def probe_int():
    """dtype integers"""
    return shift(torch.tensor([4, 5]))

def probe_half():
    """dtype half"""
    return shift(torch.tensor([0.1, 5.0], dtype=torch.float16))

def probe_inference():
    """mode inference"""
    with torch.inference_mode():
        return shift(torch.tensor([2.0, 3.0]))
