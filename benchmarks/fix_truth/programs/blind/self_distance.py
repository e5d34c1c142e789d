"""An operator that gets one tensor twice leaves out the distance of a point from itself."""
import torch

class Nearest(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        distance = (a[:, None] - b[None]).abs().sum(-1)
        if a is b:
            distance = distance + torch.eye(len(a), dtype=a.dtype) * 1000
        ctx.save_for_backward(a, b)
        return distance.amin(1)

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad[:, None].expand_as(a) * 0.5, torch.zeros_like(b)

# fuselight: spacing(f32[4, 2], train=True)
@torch.compile
def spacing(points):
    return Nearest.apply(points, points) * 2

def _points(dtype=torch.float32):
    return torch.tensor([[0.0, 0.0], [1.0, 1.0], [5.0, 2.0]], dtype=dtype)

def probe_values():
    """output nearest other point"""
    return spacing(_points())

def probe_gradients():
    """gradients"""
    x = _points().requires_grad_()
    spacing(x).sum().backward()
    return x.grad

def probe_one_point():
    """size one point"""
    return spacing(torch.zeros(1, 2))

def probe_double():
    """dtype double"""
    return spacing(_points(torch.float64))

def probe_no_grad():
    """mode without gradients"""
    with torch.no_grad():
        return spacing(_points())
