"""Product of the selected values."""
import torch


# fuselight: f(f32[6], bool[6])
def f(x, m):
    return x[m].prod()


def probe_none():
    """empty: the product of nothing."""
    return f(torch.ones(3), torch.zeros(3, dtype=torch.bool))


def probe_nan():
    """nonfinite: NaN outside of the mask."""
    return f(torch.tensor([2.0, float("nan"), 3.0]), torch.tensor([True, False, True]))


def probe_grad():
    """gradients: a zero outside."""
    x = torch.tensor([2.0, 0.0, 3.0], requires_grad=True)
    y = f(x, torch.tensor([True, False, True]))
    y.backward()
    return y, x.grad


def probe_integers():
    """dtype: small integers are multiplied in int64."""
    return f(torch.tensor([100, 100], dtype=torch.int8), torch.tensor([True, True]))
