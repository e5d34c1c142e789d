"""a power with a number."""

import torch


# fuselight: raised(f32[3].abs())
def raised(x):
    n = x.max().item()
    return x**n


def probe_integers():
    """extreme: negative powers of integers fail."""
    return raised(torch.tensor([-2, -1]))


def probe_gradients():
    """gradients: at zero."""
    x = torch.tensor([0.0, 2.0], requires_grad=True)
    raised(x).sum().backward()
    return x.grad
