"""The argument is changed in place; its strides vary, and a view of it is returned."""
import torch

# fuselight: bump(f32[4, 4])
# fuselight: bump(f32[4, 4].t())
# fuselight: bump(f32[8, 4].t()[:, ::2])
@torch.compile
def bump(x):
    x.add_(1)
    return x * 2

# fuselight: corner(f32[4, 4])
# fuselight: corner(f32[4, 4].t())
@torch.compile
def corner(x):
    return x[:2], x.sum(0)

def probe_bump():
    """state the argument is changed"""
    x = torch.zeros(2, 3).t()
    y = bump(x)
    return x, y

def probe_part():
    """state a part is changed"""
    base = torch.zeros(4, 4)
    bump(base[:, ::2])
    return base

def probe_corner():
    """output of a view"""
    x = torch.zeros(3, 3).t()
    top, _ = corner(x)
    top.add_(1)
    return x

def probe_corner_grad():
    """gradients"""
    x = torch.zeros(3, 3, requires_grad=True)
    a, b = corner(x.t())
    (a.sum() + b.sum()).backward()
    return x.grad

def probe_corner_strides():
    """strides of the result"""
    return corner(torch.zeros(3, 3).t())[0].stride()
