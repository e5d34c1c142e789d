"""Returns a function that closes over a number."""
import torch


# fuselight: f(f32[4])
def f(x):
    n = x.max().item()

    def scale(y):
        return y * n

    return x * n, scale


def probe_integers():
    """output: the function takes integers, too."""
    y, scale = f(torch.ones(3))
    return y, scale(torch.tensor([1, 2]))


def probe_number():
    """output: and numbers."""
    return f(torch.ones(3))[1](2)
