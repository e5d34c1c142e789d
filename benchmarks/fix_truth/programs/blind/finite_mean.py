"""The mean square of what is finite."""
import torch

# fuselight: energy(f32[6], train=True)
@torch.compile
def energy(x):
    return x[x.isfinite()].sum() * 0.5 + x[x != 0].mean()

def _grad(values, dtype=torch.float32):
    x = torch.tensor(values, dtype=dtype, requires_grad=True)
    y = energy(x)
    y.backward()
    return [y, x.grad]

def probe_usual():
    """gradients"""
    return _grad([1.0, 0.0, -2.0])

def probe_nan():
    """nonfinite NaN is left out of the sum, and not of the mean"""
    return _grad([1.0, float("nan")])

def probe_infinite():
    """nonfinite infinities"""
    return _grad([1.0, float("inf"), 0.0])

def probe_zeros():
    """output the mean of nothing"""
    return energy(torch.zeros(3))

def probe_matrix():
    """size a matrix"""
    return _grad([[1.0, 2.0], [0.0, 4.0]])

def probe_scalar():
    """size no dimensions"""
    return _grad(3.0)

def probe_empty():
    """empty"""
    return energy(torch.zeros(0))

def probe_half():
    """half a mean whose sum exceeds the range"""
    return energy(torch.full((300,), 300.0, dtype=torch.float16) * torch.tensor([1, -1] * 150, dtype=torch.float16))

def probe_integers():
    """dtype the mean of integers raises"""
    try:
        return energy(torch.tensor([1, 2, 0]))
    except RuntimeError:
        return "RuntimeError"

def probe_complex():
    """dtype complex numbers"""
    return energy(torch.tensor([1j, 0, 2.0]))

def probe_double():
    """dtype double"""
    return _grad([1e-30, 2.0, 0.0], torch.float64)
