"""An exponent varies: two is a square, and a negative base needs an integer."""
import torch

# fuselight: curve(f32[4], 1.5)
# fuselight: curve(f32[4], 2.5)
# fuselight: curve(f32[4], 3.5)
@torch.compile
def curve(x, power):
    return x.abs() ** power

# fuselight: signed(f32[4], 2.0)
# fuselight: signed(f32[4], 3.0)
# fuselight: signed(f32[4], 4.0)
@torch.compile
def signed(x, power):
    return torch.pow(x, power).clamp(max=power)

def probe_curve():
    """output"""
    return [curve(torch.tensor([0.0, 0.5, -2.0]), p) for p in (1.5, 2.0, 0.5, 0.0, -1.0)]

def probe_curve_grad():
    """gradients at zero"""
    out = []
    for p in (1.5, 2.0, 1.0, 0.0):
        x = torch.tensor([0.0, 2.0], requires_grad=True)
        curve(x, p).sum().backward()
        out.append(x.grad)
    return out

def probe_signed():
    """values negative bases"""
    return [signed(torch.tensor([-2.0, 0.0, 1.5]), p) for p in (2.0, 3.0, 0.5, 0.0, -2.0)]

def probe_signed_grad():
    """gradients of the clamp"""
    out = []
    for p in (2.0, 3.0, 0.0):
        x = torch.tensor([-2.0, 0.0, 1.5], requires_grad=True)
        signed(x, p).sum().backward()
        out.append(x.grad)
    return out

def probe_half():
    """dtype half"""
    return signed(torch.tensor([1.1, 0.7], dtype=torch.float16), 2.3)

def probe_int():
    """dtype integers"""
    return signed(torch.tensor([2, -3]), 2.0)

def probe_int_power():
    """option integers"""
    return signed(torch.tensor([2, -3]), 2), signed(torch.tensor([2.0, -3.0]), 3)

def probe_scalar():
    """rank none"""
    return signed(torch.tensor(1.1), 2.3)
