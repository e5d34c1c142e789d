"""A float32 number scales half precision."""
import torch


# fuselight: f(f32[4], f32[3])
def f(x, t):
    scale = t.abs().max().item()
    return x * scale


def probe_half():
    """dtype: half times float32."""
    return f(torch.ones(4, dtype=torch.float16), torch.tensor([1.001, 0.5, 0.25]))


def probe_bfloat():
    """dtype: bfloat16 times float32."""
    return f(torch.ones(4, dtype=torch.bfloat16) * 3, torch.tensor([1.001, 0.5, 0.25]))


def probe_integers():
    """dtype: integers times a float."""
    return f(torch.tensor([1, 2]), torch.tensor([1.5]))


def probe_double():
    """dtype: float64 times float32."""
    return f(torch.ones(4, dtype=torch.float64), torch.tensor([0.1]))
