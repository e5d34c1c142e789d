"""Right: a sum of what a mask selects, from the tensor itself."""

import torch


# fuselight: total(f32[4, 4])
def total(x):
    return x[x > 0].sum() + x[x < 0].prod()


def probe_sizes():
    """size: none selected, all selected, another rank."""
    return [total(torch.zeros(3, 3)), total(torch.ones(2)), total(-torch.ones(2, 2, 2))]


def probe_dtypes():
    """dtype: integers and halves."""
    x = torch.tensor([3, -2, 5, 0])
    return [total(x), total(x.to(torch.int32)), total(x.half()), total(x.double())]


def probe_gradients():
    """gradients: zeros where nothing is selected."""
    x = torch.tensor([1.0, -2.0, 3.0], requires_grad=True)
    total(x).backward()
    return x.grad


def probe_nan():
    """nonfinite: NaN is not selected."""
    return total(torch.tensor([1.0, float("nan"), float("inf")]))


def probe_empty():
    """empty: no elements."""
    return total(torch.empty(0))
