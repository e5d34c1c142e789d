"""the target is the caller's tensor, and the source a view of it."""

import torch


# fuselight: fold(f32[4])
def fold(x):
    y = x.view(-1)
    y[x > 0] = x[x > 0] * 2
    return x + 1


def probe_argument():
    """state: the argument changes."""
    x = torch.tensor([1.0, -1.0])
    return fold(x), x


def probe_gradients():
    """gradients: of an intermediate tensor."""
    x = torch.ones(2, requires_grad=True)
    fold(x * 1).sum().backward()
    return x.grad
