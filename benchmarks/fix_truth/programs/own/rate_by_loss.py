"""A learning rate that depends on a tensor."""
import torch


# fuselight: f(f32[4])
def f(x):
    if x.mean() > 0:
        rate = 0.1
    else:
        rate = 0.3
    return x * rate


def probe_double():
    """dtype: 0.1 in float64."""
    return f(torch.ones(4, dtype=torch.float64)), f(-torch.ones(4, dtype=torch.float64))


def probe_half():
    """dtype: half precision."""
    return f(torch.ones(4, dtype=torch.float16))


def probe_plain():
    """size: a batch."""
    return f(torch.ones(2, 3)), f(-torch.ones(1, 1))


def probe_integers():
    """dtype: integers have no mean."""
    try:
        return f(torch.arange(3))
    except RuntimeError as error:
        return type(error).__name__
