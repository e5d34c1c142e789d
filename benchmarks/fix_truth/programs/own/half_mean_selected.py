"""the sum overflows, and the mean does not."""

import torch


# fuselight: mean(f32[8].abs() + 1)
def mean(x):
    return x[x > 0].mean()


def probe_half():
    """extreme: the sum is more than 65,504."""
    return mean(torch.full((4,), 60000.0, dtype=torch.float16))


def probe_bfloat():
    """dtype: many elements in bfloat16."""
    return mean(torch.ones(1000, dtype=torch.bfloat16))


def probe_none():
    """size: the mean of nothing."""
    return mean(-torch.ones(3))


def probe_gradients():
    """gradients: of the selected ones."""
    x = torch.tensor([1.0, -1.0, 3.0], requires_grad=True)
    mean(x).backward()
    return x.grad
