"""Two branches, one in the other."""
import torch


# fuselight: f(f32[4])
def f(x):
    if x.sum() > 0:
        if x.max() > 2:
            y = x * 2
        else:
            y = x * 3
    else:
        y = -x
    return y


def probe_each():
    """size: all three sides."""
    return f(torch.full((3,), 3.0)), f(torch.ones(3)), f(-torch.ones(3))


def probe_nan():
    """nonfinite: comparisons with NaN are false."""
    return f(torch.tensor([float("nan"), 1.0]))


def probe_grad():
    """gradients: of one side."""
    x = torch.full((3,), 3.0, requires_grad=True)
    f(x).sum().backward()
    return x.grad


def probe_empty():
    """empty: no maximum is taken."""
    return f(torch.empty(0))
