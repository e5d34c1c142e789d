"""A division that the branch guards."""
import torch


# fuselight: f(f32[4], train=True)
def f(x):
    total = x.sum()
    if total > 0:
        y = x / total
    else:
        y = torch.zeros_like(x)
    return y


def probe_zero():
    """gradients: at a total of zero."""
    x = torch.tensor([1.0, -1.0], requires_grad=True)
    y = f(x)
    return y, y.requires_grad


def probe_positive():
    """gradients: of a division."""
    x = torch.tensor([1.0, 3.0], requires_grad=True)
    f(x)[0].backward()
    return x.grad


def probe_flag():
    """gradients: zeros require none."""
    x = torch.tensor([-1.0, -3.0], requires_grad=True)
    return f(x).requires_grad
