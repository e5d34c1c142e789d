"""An integer argument varies."""
import torch


# fuselight: f(f32[4], 2)
# fuselight: f(f32[4], 3)
# fuselight: f(f32[4], 4)
@torch.compile
def f(x, n):
    return x * n


def probe_large():
    """extreme: an int beyond int32."""
    return f(torch.ones(2), 2**40)


def probe_integers():
    """dtype: integers times an int."""
    return f(torch.tensor([1, 2], dtype=torch.int8), 3)


def probe_float():
    """other: a float in place of the int."""
    return f(torch.ones(2), 2.5)


def probe_bool():
    """other: a bool in place of the int."""
    return f(torch.ones(2), True)
