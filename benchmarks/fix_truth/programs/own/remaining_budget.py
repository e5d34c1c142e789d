"""An unsigned count is subtracted."""
import torch


# fuselight: f(f32[4], u8[3])
@torch.compile
def f(x, t):
    used = t.sum().item()
    left = t.max().item() - 5
    return x * left + used


def probe_negative():
    """dtype: the difference is negative in Python."""
    return f(torch.ones(4), torch.tensor([1, 2, 0], dtype=torch.uint8))


def probe_wide():
    """dtype: int16 counts."""
    return f(torch.ones(4), torch.tensor([1, 2, 0], dtype=torch.int16))
