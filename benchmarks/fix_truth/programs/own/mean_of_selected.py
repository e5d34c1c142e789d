"""Mean of the selected values, over several sizes."""
import torch


# fuselight: f(f32[8])
@torch.compile
def f(x):
    return x[x > 0].mean() + x[x < 0].sum()


def probe_half():
    """extreme: a sum beyond float16."""
    return f(torch.full((64,), 4000.0, dtype=torch.float16))


def probe_all_negative():
    """nonfinite: a mean of nothing."""
    return f(-torch.ones(3))


def probe_double():
    """dtype: float64."""
    return f(torch.linspace(-1, 1, 9, dtype=torch.float64))


def probe_integers():
    """dtype: integers have no mean."""
    try:
        return f(torch.arange(4))
    except RuntimeError as error:
        return type(error).__name__
