"""A helper counts its calls in a global dict."""
import torch


COUNTS = {"scale": 0}


def scale(x):
    COUNTS["scale"] += 1
    return x * 2


# fuselight: f(f32[4])
def f(x):
    if x.mean() > 0:
        x = scale(x)
    else:
        x = x - 1
    return x


def probe_counts():
    """state: only the side that is taken counts."""
    COUNTS["scale"] = 0
    return f(torch.ones(4)), f(-torch.ones(4)), dict(COUNTS)


def probe_negative():
    """state: no call."""
    COUNTS["scale"] = 0
    f(-torch.ones(3))
    return dict(COUNTS)
