"""max of an integer and a number of floating point, which meets integers."""
import torch


# fuselight: f(i64[4] % 5, f32[3])
@torch.compile
def f(x, t):
    n = max(t.max().item(), 0)
    return x * n


def probe_types():
    """values: an integer is kept where all are negative."""
    return f(torch.tensor([1, 2]), torch.tensor([-1.0, -2.0]))


def probe_nan():
    """nonfinite: the first one is NaN."""
    return f(torch.tensor([1, 2]), torch.tensor([float("nan")]))
