"""A factor that is a float in most calls, and complex in some."""
import torch

# fuselight: turned(f32[4], 0.5)
# fuselight: turned(f32[4], 0.75)
# fuselight: turned(f32[4], 1.25)
# fuselight: turned(f32[4], 1.5)
@torch.compile
def turned(x, factor):
    return x * factor + x

def probe_float():
    """output of a float"""
    return turned(torch.arange(3.0), 0.1)

def probe_complex():
    """dtype a complex factor makes the result complex"""
    return turned(torch.arange(3.0), 1j)

def probe_complex_tensor():
    """dtype complex64 stays"""
    return turned(torch.tensor([1 + 1j, 2 - 1j]), 0.5)

def probe_bool():
    """dtype integers times a flag stay integers"""
    return turned(torch.arange(3), True)

def probe_integer():
    """dtype integers times an integer stay integers"""
    return turned(torch.arange(3, dtype=torch.int8), 3)

def probe_large_integer():
    """extreme an integer that a float64 does not hold"""
    return turned(torch.tensor([1, 2]), 2**53 + 1)

def probe_scalar():
    """dtype a float32 without dimensions stays"""
    return turned(torch.tensor(2.0), 0.5)

def probe_half_scalar():
    """dtype a float16 without dimensions stays"""
    return turned(torch.tensor(2.0, dtype=torch.float16), 0.1)

def probe_half_large():
    """extreme a factor beyond float16"""
    return turned(torch.tensor([1e-3], dtype=torch.float16), 1e6)

def probe_tensor():
    """gradients of a factor that is a tensor"""
    factor = torch.tensor([0.5, 2.0], requires_grad=True)
    out = turned(torch.arange(2.0), factor)
    out.sum().backward()
    return [out.detach(), factor.grad]

def probe_single_tensor():
    """dtype a float32 factor with one element and float16"""
    return turned(torch.ones(2, dtype=torch.float16), torch.tensor([0.5], dtype=torch.float16))

def probe_infinite():
    """nonfinite factor"""
    return turned(torch.tensor([0.0, -1.0]), float("inf"))

def probe_complex_infinite():
    """nonfinite complex times a float"""
    return torch.view_as_real(turned(torch.tensor([complex(1, 0), complex(0, -0.0)]), float("inf")))
