"""A dict of results whose order is that of the branches."""
import torch


# fuselight: f(f32[4])
def f(x):
    parts = {}
    if x.sum() > 0:
        y = x * 2
    else:
        y = x * 3
    parts["y"] = y
    print(y.mean())
    parts["x"] = x + 1
    return parts


def probe_order():
    """output: the order of the keys."""
    return list(f(-torch.ones(2)).items())
