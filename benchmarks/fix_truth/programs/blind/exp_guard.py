"""Large values avoid the exponential, whose derivative overflows."""
import torch

# fuselight: growth(f32[4], train=True)
@torch.compile
def growth(x):
    if x.max() > 60:
        y = x * 2
    else:
        y = torch.exp(x)
    return y

def _grad(values, dtype=torch.float32):
    x = torch.tensor(values, dtype=dtype, requires_grad=True)
    y = growth(x)
    y.sum().backward()
    return [y, x.grad]

def probe_small():
    """gradients of the exponential"""
    return _grad([0.5, -1.0])

def probe_large():
    """gradients where the exponential is infinite and not taken"""
    return _grad([100.0, 1.0])

def probe_large_double():
    """gradients in double precision"""
    return _grad([800.0, 1.0], torch.float64)

def probe_limit():
    """output at the limit"""
    return growth(torch.tensor([60.0, 1.0]))

def probe_nan():
    """nonfinite NaN is not larger"""
    return growth(torch.tensor([float("nan"), 1.0]))

def probe_infinite():
    """nonfinite infinity"""
    return growth(torch.tensor([float("inf"), 1.0]))

def probe_integers():
    """dtype integers stay integers where they are large"""
    return [growth(torch.tensor([100, 1])), growth(torch.tensor([2, 1]))]
