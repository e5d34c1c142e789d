"""A custom autograd function gets one tensor twice."""
import torch

class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        ctx.same = a is b
        return a * b

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g * b, g * a

# fuselight: square(f32[3], train=True)
@torch.compile
def square(x):
    return Product.apply(x, x)

def probe_grad():
    """gradients"""
    x = torch.tensor([2.0, 3.0], requires_grad=True)
    square(x).sum().backward()
    return x.grad

def probe_double_backward():
    """gradients of gradients raise or not"""
    x = torch.tensor([2.0], requires_grad=True)
    try:
        (g,) = torch.autograd.grad(square(x).sum(), x, create_graph=True)
        g.sum().backward()
        return x.grad
    except RuntimeError as e:
        return "RuntimeError"
