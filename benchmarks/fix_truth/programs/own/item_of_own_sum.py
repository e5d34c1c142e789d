"""Right: a share of the sum."""

import torch


# fuselight: share(f32[6])
def share(x):
    return x / x.sum().item()


def probe_dtypes():
    """dtype: integers divide to floats."""
    return [share(torch.tensor([1, 3], dtype=d)) for d in (torch.int64, torch.uint8, torch.float64, torch.float16)]


def probe_gradients():
    """gradients: the sum is a constant."""
    x = torch.tensor([1.0, 3.0], requires_grad=True)
    share(x).square().sum().backward()
    return x.grad
