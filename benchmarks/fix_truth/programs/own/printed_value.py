"""A print in the middle."""
import torch


# fuselight: f(f32[4])
@torch.compile
def f(x):
    y = x * 2
    print("sum", y.sum())
    return y + 1


def probe_print():
    """output: the text."""
    return f(torch.ones(3))


def probe_half():
    """dtype: the text names the dtype."""
    return f(torch.ones(3, dtype=torch.float16))


def probe_grad():
    """gradients: the text names grad_fn."""
    x = torch.ones(2, requires_grad=True)
    y = f(x)
    y.sum().backward()
    return y, x.grad
