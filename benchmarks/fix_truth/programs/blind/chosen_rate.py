"""A rate is chosen by a branch and multiplies float64."""
import torch

# fuselight: update(f64[4], f64[4])
@torch.compile
def update(w, g):
    rate = 0.1 if g.norm() > 1 else 0.3
    return w - rate * g

def probe_double():
    """dtype float64 keeps its digits"""
    return update(torch.ones(3, dtype=torch.float64), torch.full((3,), 0.7, dtype=torch.float64))

def probe_float():
    """dtype float32"""
    return update(torch.ones(3), torch.full((3,), 0.1))

def probe_integer():
    """dtype integer weights"""
    return update(torch.tensor([1, 2]), torch.tensor([0.5, 3.0]))

def probe_complex():
    """dtype complex"""
    return update(torch.ones(2, dtype=torch.complex64), torch.ones(2, dtype=torch.complex64))
