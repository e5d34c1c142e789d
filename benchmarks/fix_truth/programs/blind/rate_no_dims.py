"""A rate varies; the tensor may have no dimensions, be half, or need a gradient."""
import torch

# fuselight: decayed(f32[4], 0.5)
# fuselight: decayed(f32[4], 0.25)
# fuselight: decayed(f32[4], 0.125)
@torch.compile
def decayed(x, rate):
    return x - x * rate

def probe_usual():
    """output"""
    return decayed(torch.tensor([1.0, 3.0]), 0.1)

def probe_scalar():
    """dtype a tensor without dimensions"""
    return decayed(torch.tensor(1.0), 0.1), decayed(torch.tensor(1.0, dtype=torch.float16), 0.1)

def probe_half():
    """dtype half cancels"""
    return decayed(torch.tensor([1.0, 1000.0], dtype=torch.float16), 0.999)

def probe_bfloat():
    """dtype bfloat16 cancels"""
    return decayed(torch.tensor([1.0, 1000.0], dtype=torch.bfloat16), 0.999)

def probe_complex():
    """dtype complex"""
    return decayed(torch.tensor([1 + 2j]), 0.1)

def probe_integer_rate():
    """option an integer keeps integers"""
    return decayed(torch.tensor([2, 3]), 2), decayed(torch.tensor([2, 3]), True)

def probe_tensor_rate():
    """option a tensor"""
    return decayed(torch.tensor([2.0, 3.0]), torch.tensor([0.5, 0.25]))

def probe_numpy_rate():
    """option a number of NumPy"""
    import numpy
    return decayed(torch.tensor([2.0, 3.0]), numpy.float64(0.5)), decayed(torch.tensor([2.0]), numpy.float32(0.1))

def probe_inf():
    """nonfinite"""
    return decayed(torch.tensor([0.0, 3.0]), float("inf"))

def probe_grad():
    """gradients"""
    x = torch.tensor([1.0, 3.0], requires_grad=True)
    decayed(x, 0.1).sum().backward()
    return x.grad

def probe_small():
    """extreme a subnormal rate"""
    return decayed(torch.tensor([1e38]), 1e-45)
