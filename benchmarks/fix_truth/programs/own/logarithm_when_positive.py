"""A logarithm on one side."""
import torch


# fuselight: f(f32[4])
def f(x):
    if (x > 0).all():
        y = x.log()
    else:
        y = x.exp()
    return y


def probe_grad():
    """gradients: of the side that is taken, where the other has none."""
    x = torch.tensor([0.0, 1.0], requires_grad=True)
    y = f(x)
    y.sum().backward()
    return y, x.grad


def probe_integers():
    """dtype: integers."""
    return f(torch.tensor([1, 2])), f(torch.tensor([-1, 2]))


def probe_infinite():
    """nonfinite: infinity."""
    return f(torch.tensor([float("inf"), -1.0]))
