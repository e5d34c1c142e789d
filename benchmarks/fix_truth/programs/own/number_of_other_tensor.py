"""the number has another dtype than what it meets."""

import torch


# fuselight: scaled(f32[4], f32[3])
def scaled(x, w):
    return x * w.max().item()


def probe_integers():
    """dtype: integers with a double number."""
    return scaled(torch.arange(3), torch.tensor([0.5], dtype=torch.float64))


def probe_scalar():
    """size: a tensor without dimensions keeps its dtype."""
    return scaled(torch.tensor(2.0), torch.tensor([0.1], dtype=torch.float64))


def probe_half():
    """dtype: half precision with a large number."""
    return scaled(torch.tensor([0.001], dtype=torch.float16), torch.tensor([70000.0]))
