"""The mode decides what is returned."""
import torch

# fuselight: maybe_detach(f32[3])
@torch.compile
def maybe_detach(x):
    y = x * 2
    if not torch.is_grad_enabled():
        y = y + 1
    if y.sum() > 0:
        y = y.detach()
    return y

def probe_flags():
    """gradients: flags on both sides"""
    a = maybe_detach(torch.ones(2, requires_grad=True))
    b = maybe_detach(-torch.ones(2, requires_grad=True))
    return a.requires_grad, b.requires_grad

def probe_no_grad():
    """mode no_grad"""
    with torch.no_grad():
        return maybe_detach(torch.ones(2, requires_grad=True))
