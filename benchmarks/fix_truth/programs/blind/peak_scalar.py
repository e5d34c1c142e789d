"""A number of a tensor multiplies tensors of another dtype that are computed from it."""
import torch

# fuselight: weigh(f32[4])
@torch.compile
def weigh(x):
    peak = x.abs().max().item()
    low = x.half()
    return low * peak, x / (peak + 1)

def probe_usual():
    """output"""
    return weigh(torch.tensor([1.0, -3.0]))

def probe_scalar():
    """rank no dimensions: half stays half"""
    return weigh(torch.tensor(3.0))

def probe_double():
    """dtype double"""
    return weigh(torch.tensor([0.1, 3.0], dtype=torch.float64))

def probe_double_scalar():
    """rank a double without dimensions"""
    return weigh(torch.tensor(0.1, dtype=torch.float64))

def probe_ints():
    """dtype integers"""
    return weigh(torch.tensor([1, -3]))

def probe_int_scalar():
    """rank an integer without dimensions"""
    return weigh(torch.tensor(7))

def probe_large():
    """extreme a peak beyond half"""
    return weigh(torch.tensor([1e5, 1e-6]))

def probe_grad():
    """gradients the peak has none"""
    x = torch.tensor([1.0, -3.0], requires_grad=True)
    a, b = weigh(x)
    (a.float().sum() + b.sum()).backward()
    return x.grad

def probe_nan():
    """nonfinite"""
    return weigh(torch.tensor([float("nan"), 1.0]))
