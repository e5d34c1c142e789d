"""An assert on a tensor."""
import torch


# fuselight: f(f32[4])
def f(x):
    assert (x >= -100).all(), "out of range"
    return x * 2


def probe_raises():
    """other: an exception."""
    try:
        return f(torch.full((4,), -200.0))
    except Exception as error:
        return type(error).__name__


def probe_nan():
    """nonfinite: NaN is out of range."""
    try:
        return f(torch.tensor([float("nan")]))
    except Exception as error:
        return type(error).__name__


def probe_plain():
    """size: one element."""
    return f(torch.ones(1))
