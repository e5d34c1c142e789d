"""Right: a mean subtracted in place."""

import torch


# fuselight: center(f32[8])
def center(x):
    x = x.clone()
    x -= x.mean().item()
    return x


def probe_dtypes():
    """dtype: half and double; integers have no mean."""
    x = torch.arange(6)
    found = [center(x.to(d)) for d in (torch.float16, torch.float64)]
    try:
        center(x)
    except RuntimeError as error:
        found.append(type(error).__name__)
    return found


def probe_nan():
    """nonfinite: a NaN spreads."""
    return center(torch.tensor([1.0, float("nan")]))
