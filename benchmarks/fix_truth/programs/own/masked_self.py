"""A masked assignment that reads what it writes."""
import torch


# fuselight: f(f32[4], f32[4] , bool[4])
@torch.compile
def f(y, x, m):
    y = y.clone()
    y[m] = y[m] / x[m]
    return y


def probe_backward():
    """gradients: through what it reads."""
    y = torch.ones(4, requires_grad=True)
    x = torch.full((4,), 2.0, requires_grad=True)
    out = f(y, x, torch.tensor([True, False, True, False]))
    out.sum().backward()
    return out, y.grad, x.grad


def probe_zero():
    """gradients: a divisor of zero outside of the mask."""
    y = torch.ones(4, requires_grad=True)
    x = torch.tensor([1.0, 0.0, 2.0, 0.0], requires_grad=True)
    out = f(y, x, x != 0)
    out.sum().backward()
    return out, y.grad, x.grad


def probe_rows():
    """size: rows."""
    return f(torch.ones(2, 3), torch.full((2, 3), 2.0), torch.tensor([True, False]))
