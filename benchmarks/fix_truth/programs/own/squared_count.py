"""The square of a number taken from integers."""
import torch


# fuselight: f(f32[4], i64[3] % 5)
@torch.compile
def f(x, t):
    n = t.max().item()
    return x * (n * n)


def probe_int32():
    """extreme: the square exceeds int32."""
    return f(torch.ones(4), torch.tensor([70000, 1, 2], dtype=torch.int32))


def probe_int8():
    """extreme: the square exceeds int8."""
    return f(torch.ones(4), torch.tensor([100, 1], dtype=torch.int8))


def probe_size():
    """size: one number."""
    return f(torch.ones(1), torch.tensor([3]))


def probe_float():
    """dtype: half precision."""
    return f(torch.ones(4, dtype=torch.float16), torch.tensor([3]))
