"""The exponential of what is small enough is assigned; the derivative of the rest overflows."""
import torch

# fuselight: damped(f32[2, 3], train=True)
@torch.compile
def damped(x):
    y = torch.zeros_like(x)
    small = x < 50
    y[small] = torch.exp(x[small]) * 0.5
    return y

def _grad(values):
    x = torch.tensor(values, requires_grad=True)
    y = damped(x)
    y.sum().backward()
    return [y, x.grad]

def probe_small():
    """gradients all are small"""
    return _grad([[1.0, -2.0, 0.0]])

def probe_large():
    """gradients some exponentials are infinite"""
    return _grad([[1.0, 200.0, -3.0]])

def probe_all_large():
    """gradients all exponentials are infinite"""
    return _grad([[150.0, 200.0]])

def probe_half():
    """half precision overflows earlier"""
    return damped(torch.tensor([1.0, 20.0, 60.0], dtype=torch.float16))

def probe_integers():
    """dtype integers cannot take the exponential's type"""
    return damped(torch.tensor([1, 2, 70]))

def probe_scalar():
    """size no dimensions"""
    return damped(torch.tensor(2.0))

def probe_empty():
    """empty"""
    return damped(torch.zeros(0, 3))
