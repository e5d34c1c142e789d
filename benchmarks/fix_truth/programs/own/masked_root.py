"""The root of what is positive."""
import torch


# fuselight: f(f32[4])
@torch.compile
def f(x):
    y = torch.zeros_like(x)
    m = x > 0
    y[m] = x[m].sqrt()
    return y


def probe_backward():
    """gradients: at zero and below."""
    x = torch.tensor([4.0, 0.0, -1.0, 1.0], requires_grad=True)
    y = f(x)
    y.sum().backward()
    return y, x.grad


def probe_nan():
    """nonfinite: NaN is not positive."""
    return f(torch.tensor([float("nan"), 1.0, float("inf")]))


def probe_matrix():
    """size: two dimensions."""
    return f(torch.ones(2, 3))


def probe_empty():
    """empty: nothing."""
    return f(torch.empty(0))
