"""A list argument gets an element."""
import torch


# fuselight: f([f32[3], f32[3]])
# fuselight: f([f32[3], f32[3], f32[3]])
@torch.compile
def f(xs):
    y = sum(xs)
    xs.append(y)
    return y


def probe_list():
    """state: the caller's list."""
    xs = [torch.ones(3), torch.ones(3)]
    y = f(xs)
    return y, len(xs)


def probe_empty():
    """empty: sum of nothing is 0."""
    xs = []
    return f(xs), len(xs)
