"""Masked assignment of values in order."""
import torch

# fuselight: place(f32[6], f32[6])
@torch.compile
def place(y, values):
    y = y.clone()
    m = y > 0
    y[m] = values[: int(m.sum())]
    return y

def probe_order():
    """other mask: values are taken in order"""
    return place(torch.tensor([1.0, -1.0, 1.0]), torch.tensor([7.0, 8.0, 9.0]))

def probe_all():
    """extreme all"""
    return place(torch.ones(3), torch.tensor([7.0, 8.0, 9.0]))
