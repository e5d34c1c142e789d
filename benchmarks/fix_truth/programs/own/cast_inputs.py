"""The dtype varies."""
import torch


# fuselight: f(f32[4])
# fuselight: f(f16[4])
@torch.compile
def f(x):
    return x * 3 + 1


def probe_half():
    """dtype: rounding of half precision in each operation."""
    return f(torch.linspace(0, 1, 16).half())


def probe_bfloat():
    """dtype: bfloat16."""
    return f(torch.linspace(0, 1, 16).bfloat16())


def probe_large():
    """extreme: beyond float16."""
    return f(torch.tensor([30000.0], dtype=torch.float16))


def probe_integers():
    """dtype: integers."""
    return f(torch.arange(4))
