"""a number chosen by a tensor."""

import torch


# fuselight: update(f32[4])
def update(x):
    rate = 0.1 if x.sum() > 0 else 0.3
    return x * rate


def probe_double():
    """dtype: float64 has more digits of 0.1."""
    return update(torch.ones(2, dtype=torch.float64))


def probe_integers():
    """dtype: integers become float32."""
    return update(torch.ones(2, dtype=torch.int64))
