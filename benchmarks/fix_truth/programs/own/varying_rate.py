"""A float argument varies."""
import torch


# fuselight: f(f32[4], 0.1)
# fuselight: f(f32[4], 0.2)
# fuselight: f(f32[4], 0.3)
@torch.compile
def f(x, rate):
    return x * rate + rate


def probe_integers():
    """dtype: integers with a float."""
    return f(torch.tensor([1, 2]), 0.5)


def probe_half():
    """dtype: half stays half."""
    return f(torch.ones(3, dtype=torch.float16), 0.1)


def probe_double():
    """dtype: float64."""
    return f(torch.ones(3, dtype=torch.float64), 0.1)


def probe_int():
    """dtype: integers, and an int in place of the float."""
    return f(torch.tensor([1, 2]), 2)


def probe_int_of_floats():
    """other: an int in place of the float."""
    return f(torch.tensor([1.5, 2.5]), 2)
