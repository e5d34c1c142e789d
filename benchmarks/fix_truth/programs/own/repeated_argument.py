"""One tensor twice into an autograd function."""
import torch


class Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        return a * b

    @staticmethod
    def backward(ctx, grad):
        a, b = ctx.saved_tensors
        return grad * b, grad * a


# fuselight: f(f32[4], train=True)
@torch.compile
def f(x):
    return Product.apply(x, x)


def probe_grad():
    """gradients: both parts."""
    x = torch.tensor([2.0, 3.0], requires_grad=True)
    f(x).sum().backward()
    return x.grad


def probe_integers():
    """dtype: integers."""
    return f(torch.tensor([2, 3]))


def probe_empty():
    """empty: nothing."""
    return f(torch.empty(0))
