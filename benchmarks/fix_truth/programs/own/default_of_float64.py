"""The default dtype is float64, and batches are mapped by vmap."""
import torch


# fuselight: f(f32[4], f32[4])
def f(x, y):
    if y.sum() > 0:
        x = x * 2.5
    else:
        x = x * 0.1
    return x * y.max().item()


def probe_default():
    """dtype: tensors of numbers are float64."""
    torch.set_default_dtype(torch.float64)
    try:
        return f(torch.tensor([1, 2]), torch.tensor([1.0, 2.0], dtype=torch.float32)), f(torch.ones(2), torch.ones(2))
    finally:
        torch.set_default_dtype(torch.float32)


def probe_mixed():
    """dtype: float16 and float64."""
    return f(torch.ones(2, dtype=torch.float16), torch.full((2,), 0.1, dtype=torch.float64))
