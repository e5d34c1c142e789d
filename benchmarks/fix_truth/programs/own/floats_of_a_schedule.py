"""Right: a float argument that is only multiplied."""

import torch


# fuselight: scale(f32[4], 0.5)
# fuselight: scale(f32[4], 0.25)
@torch.compile
def scale(x, rate):
    return x * rate + x


def probe_rates():
    """extreme: many rates, also none that float32 has."""
    return [scale(torch.ones(3), r) for r in (0.1, 1e-30, 1e30, 3.3)]


def probe_double():
    """dtype: float64 keeps the digits of the rate."""
    return scale(torch.ones(3, dtype=torch.float64), 0.1)


def probe_sizes():
    """size: other sizes."""
    return scale(torch.ones(2, 3), 0.1)
