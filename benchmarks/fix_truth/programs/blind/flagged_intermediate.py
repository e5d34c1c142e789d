"""An intermediate asks for gradients, and the caller reads it."""
import torch

# fuselight: measured_point(f32[3])
@torch.compile
def measured_point(x):
    h = x * 2
    h.requires_grad = True
    return h, (h * h).sum()

def probe_grad_of_h():
    """gradients of the intermediate"""
    h, loss = measured_point(torch.tensor([1.0, 2.0]))
    loss.backward()
    return h.requires_grad, h.grad, h.is_leaf

def probe_no_grad():
    """mode no_grad"""
    with torch.no_grad():
        h, loss = measured_point(torch.ones(2))
    return h.requires_grad, loss.requires_grad

def probe_tracked():
    """gradients: an input that already needs them"""
    try:
        h, loss = measured_point(torch.ones(2, requires_grad=True))
        return h.requires_grad
    except Exception as e:
        return type(e).__name__
