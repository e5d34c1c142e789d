"""The strides vary."""
import torch


# fuselight: f(f32[4, 3])
# fuselight: f(torch.randn(3, 4).t())
@torch.compile
def f(x):
    return x * 2


def probe_strides():
    """strides: they follow the input."""
    y = f(torch.ones(3, 4).t())
    return y, y.stride()


def probe_view():
    """size: a slice."""
    return f(torch.ones(4, 6)[:, ::2])
