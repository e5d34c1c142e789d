"""Lengths vary: a mask of a cached size, a half of the length, and a return of the length."""
import torch
from torch import nn

# fuselight: Attend()(f32[2, 4, 8])
# fuselight: Attend()(f32[2, 6, 8])
# fuselight: Attend()(f32[2, 8, 8])
class Attend(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("mask", torch.tril(torch.ones(16, 16, dtype=torch.bool)))

    @torch.compile
    def forward(self, x):
        n = x.shape[1]
        scores = x @ x.transpose(1, 2) / n**0.5
        scores = scores.masked_fill(~self.mask[:n, :n], float("-inf"))
        return scores.softmax(-1) @ x, n, n // 2, n / 3, x.shape

def probe_lengths():
    """size"""
    return [Attend()(torch.ones(1, n, 2)) for n in (1, 3, 5, 16)]

def probe_types():
    """output types"""
    net = Attend()
    net(torch.ones(1, 3, 2))
    return [type(v).__name__ for v in net(torch.ones(1, 5, 2))]

def probe_long():
    """size longer than the mask fails"""
    try:
        return Attend()(torch.ones(1, 17, 2))
    except Exception:
        return "fails"

def probe_zero():
    """empty rows"""
    return Attend()(torch.ones(2, 0, 4))[0].shape

def probe_zero_batch():
    """empty batch"""
    return Attend()(torch.ones(0, 3, 4))

def probe_grad():
    """gradients"""
    x = torch.ones(1, 3, 2, requires_grad=True)
    Attend()(x)[0].sum().backward()
    return x.grad
