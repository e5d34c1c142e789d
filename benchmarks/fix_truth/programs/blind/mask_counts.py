"""A mask, which is bool, is multiplied by a number that was taken from the tensor."""
import torch

# fuselight: highlight(f32[4])
@torch.compile
def highlight(x):
    top = x.max().item()
    return (x > 0) * top

def probe_usual():
    """output"""
    return highlight(torch.tensor([1.0, -3.0]))

def probe_half():
    """dtype half becomes single"""
    return highlight(torch.tensor([1.0, -3.0], dtype=torch.float16))

def probe_double():
    """dtype double becomes single"""
    return highlight(torch.tensor([0.1, -3.0], dtype=torch.float64))

def probe_default():
    """dtype of the default"""
    torch.set_default_dtype(torch.float64)
    try:
        return highlight(torch.tensor([0.1, -3.0], dtype=torch.float32))
    finally:
        torch.set_default_dtype(torch.float32)

def probe_int8():
    """dtype bytes become long"""
    return highlight(torch.tensor([100, -3], dtype=torch.int8))

def probe_bool():
    """dtype bools"""
    return highlight(torch.tensor([True, False]))

def probe_inf():
    """nonfinite infinity times false"""
    return highlight(torch.tensor([float("inf"), -1.0]))
