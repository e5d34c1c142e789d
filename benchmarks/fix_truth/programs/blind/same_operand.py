"""One tensor is given twice to a function whose forward changes its second argument."""
import torch

class Mixed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        ctx.same = a is b
        return a * b

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad * b * (2 if ctx.same else 1), grad * a

class Marked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        b.detach().add_(1)
        ctx.save_for_backward(a)
        return a * 2 + b

    @staticmethod
    def backward(ctx, grad):
        return grad * 2, grad

# fuselight: mixed(f32[3], train=True)
@torch.compile
def mixed(x):
    return Mixed.apply(x, x)

# fuselight: marked(f32[3])
@torch.compile
def marked(x):
    return Marked.apply(x, x)

def probe_mixed():
    """gradients"""
    x = torch.tensor([1.0, 3.0], requires_grad=True)
    y = mixed(x)
    y.sum().backward()
    return y, x.grad

def probe_marked():
    """state of the argument"""
    x = torch.tensor([1.0, 3.0])
    return marked(x), x

def probe_mixed_none():
    """mode no gradients"""
    with torch.no_grad():
        return mixed(torch.tensor([2.0]))
